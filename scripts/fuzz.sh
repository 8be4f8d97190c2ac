#!/usr/bin/env bash
# Fuzzes every target for a share of the time: fuzz.sh SECONDS JOBS. New inputs stay in build/fuzz-corpus; a crasher is
# left in build/fuzz-crashes and fails the run: keep it, under a telling name, in fuzz/corpus/<target>/.
set -euo pipefail
seconds=$1
jobs=$2
scripts/configure.sh asan
cmake --build --preset asan -j "$jobs"
mkdir -p build/fuzz-crashes
sources=(fuzz/*_fuzz.cc)
share=$((seconds * jobs / ${#sources[@]}))
[ "$share" -ge 1 ] || share=1

fuzz_one() {
  local name=$1 share=$2 seed=${1%_fuzz}
  mkdir -p "build/fuzz-corpus/$seed"
  if ! "build/asan/fuzz/$name" -max_total_time="$share" -max_len=65536 -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 \
      -artifact_prefix="build/fuzz-crashes/$seed-" "build/fuzz-corpus/$seed" "fuzz/corpus/$seed" >"build/fuzz-$seed.log" 2>&1; then
    grep -m 1 -A 20 -E 'ERROR|runtime error' "build/fuzz-$seed.log" >&2 || tail -n 40 "build/fuzz-$seed.log" >&2
    for crash in "build/fuzz-crashes/$seed-"*; do
      echo "$crash, in base64:" && head -c 4096 "$crash" | base64
    done >&2
    echo "fuzz target $name failed" >&2
    return 1
  fi
  echo "fuzzed $seed: $(sed -n 's/stat::number_of_executed_units: *//p' "build/fuzz-$seed.log") inputs in ${share} s"
}
export -f fuzz_one
printf '%s\n' "${sources[@]}" | sed 's|.*/||; s|\.cc$||' | xargs -P "$jobs" -I{} bash -c "fuzz_one {} $share"
