#!/usr/bin/env bash
# Installs Cairn into an empty prefix, and builds and runs programs against nothing but that: the
# examples through CMake and through pkg-config, one with the static library, one with MPI.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$root/build/consumer
demo=$root/tests/golden/orbax/demo
rm -rf "$work"
mkdir -p "$work/out"
cmake --install "$root/build/release" --prefix "$work/prefix" >/dev/null
library=$(find "$work/prefix" -name 'libcairn.so')
export LD_LIBRARY_PATH=${library%/*} PKG_CONFIG_PATH=${library%/*}/pkgconfig

fail() {
  echo "consumer: $*" >&2
  exit 1
}
# Runs an example with what it takes: the demo checkpoint, or a folder to write to.
run_example() {  # PROGRAM NAME OUT
  case $2 in
    clean_up | open_and_read | verify) "$1" "$demo" ;;
    compare) "$1" "$demo" "$demo" ;;
    convert) "$1" "$demo" "$3.safetensors" ;;
    *) "$1" "$3" ;;
  esac >"$3.log" 2>&1 || { cat "$3.log" >&2; fail "$2 failed"; }
}

# Names of folders below cairn/ are internal; none of them may be reachable from outside. Types of
# parameters do not count: private members of public classes may take internal ones.
exported=$(nm -DC --defined-only "$library" | sed 's/(.*//' | grep -cE 'cairn::v[0-9]+::(zarr|ocdbt|orbax|handlers|distributed|codec|tensorstore_spec)::' || true)
[ "$exported" -eq 0 ] || fail "the shared library exports $exported internal names"
readelf -d "$library" | grep -q 'SONAME.*libcairn\.so\.[0-9]' || fail "the shared library has no versioned SONAME"

# The examples are built as any project builds them.
cmake -S "$root/examples" -B "$work/examples" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" \
  -DCMAKE_CXX_FLAGS="-Wall -Wextra -Werror" >/dev/null
cmake --build "$work/examples" >/dev/null
readelf -d "$work/examples/example_verify" | grep -q 'NEEDED.*libcairn\.so' || fail "example_verify does not use the shared library"
count=0
for source in "$root"/examples/*.cc; do
  name=$(basename "$source" .cc)
  run_example "$work/examples/example_$name" "$name" "$work/out/cmake_$name"
  count=$((count + 1))
done
# The same through pkg-config. Compiling them takes a second each, two at a time.
for source in "$root"/examples/*.cc; do basename "$source" .cc; done | xargs -P 2 -I{} \
  sh -c "c++ -std=c++20 -Wall -Wextra -Werror '$root/examples/{}.cc' -o '$work/{}' \$(pkg-config --cflags --libs cairn)"
for source in "$root"/examples/*.cc; do
  name=$(basename "$source" .cc)
  run_example "$work/$name" "$name" "$work/out/pc_$name"
done

cmake -S "$root/tests/consumer" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build" >/dev/null
for program in consumer static_consumer; do
  listed=$("$work/build/$program" "$demo")
  [ -n "$listed" ] || fail "$program listed nothing"
done
"$work/prefix/bin/cairn" --version
if [ -n "$(find "$work/prefix" -name cairn-mpi.so)" ]; then  # as root, and on fewer cores than processes
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
  export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
  mpirun -n 2 "$work/prefix/bin/cairn" verify "$demo" >/dev/null
  [ "$(mpirun -n 2 "$work/build/mpi_consumer" | grep -c ' of 2')" -eq 2 ] || fail "mpi_consumer did not see two processes"
fi
echo "$count examples run against the installed library, built through CMake and through pkg-config."
