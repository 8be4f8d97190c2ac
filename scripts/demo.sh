#!/usr/bin/env bash
# Shows what Cairn does, on a checkpoint that Orbax wrote: demo.sh CAIRN PYTHON.
set -euo pipefail
cairn=$(realpath "$1")
python=$2
checkpoint=tests/golden/orbax/demo
out=build/demo
rm -rf "$out"
mkdir -p "$out"

show() {
  printf '\n\033[1m$ cairn %s\033[0m\n' "$*"
  "$cairn" "$@"
}

show info "$checkpoint"
show tree "$checkpoint"
show ls "$checkpoint" -l
show stats "$checkpoint" '*kernel*'
show verify "$checkpoint"
show convert "$checkpoint" "$out/model.safetensors" --skip-unsupported
show ls "$out/model.safetensors"
show diff "$checkpoint" "$out/model.safetensors" '*kernel*'
show convert "$out/model.safetensors" "$out/saved" --to orbax
show ls "$out/saved" -l

# A copy in half precision: what the rounding has cost. The answer is "they differ", exit status 1.
"$cairn" convert "$checkpoint" "$out/half.safetensors" --dtype bfloat16 --skip-unsupported > "$out/half.txt"
status=0
show diff "$checkpoint" "$out/half.safetensors" '*kernel*' --ignore-dtype || status=$?
[ "$status" -eq 1 ]

show report "$checkpoint" "$out/half.safetensors" -o "$out/page.html"

# A damaged copy: one byte of one file is changed, and Cairn says which tensor it hits and where.
cp -r "$checkpoint" "$out/damaged"
manifest=$(find "$out/damaged" -path '*/default/manifest.ocdbt' | sort | tail -n 1)  # of the latest step
printf '\xff' | dd of="$manifest" bs=1 seek=40 conv=notrunc status=none
printf '\n\033[1m$ cairn verify %s        # after one byte of it was changed\033[0m\n' "$out/damaged"
if "$cairn" verify "$out/damaged"; then
  echo "the damage went unnoticed" >&2
  exit 1
fi

printf '\n\033[1m$ %s\033[0m\n' "$python"
"$python" scripts/demo.py

cat <<TEXT

That was a checkpoint written by Orbax, read without Orbax and without JAX. Now try your own:

  $1 info PATH          what is it?
  $1 verify PATH        is it whole?
  $1 diff PATH PATH     what has changed?
  $1 convert PATH model.safetensors
  $1 report PATH -o page.html

The page $out/page.html shows the checkpoint in a browser.
The converted model is $out/model.safetensors; \`$1 --help\` and docs/guides/command.md have the rest.
$python has the Python package; docs/guides/python.md explains it.
TEXT
