#!/usr/bin/env bash
# Installs Cairn into an empty prefix and builds, against nothing but that, a program that opens the demo checkpoint.
set -euo pipefail
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$root/build/consumer
rm -rf "$work"
cmake --install "$root/build/release" --prefix "$work/prefix" >/dev/null
cmake -S "$root/tests/consumer" -B "$work/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCMAKE_PREFIX_PATH="$work/prefix" >/dev/null
cmake --build "$work/build" >/dev/null
listed=$("$work/build/consumer" "$root/tests/golden/orbax/demo")
"$work/prefix/bin/cairn" --version
if [ -n "$(find "$work/prefix" -name cairn-mpi.so)" ]; then  # as root, and on fewer cores than processes
  OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe \
    mpirun -n 2 "$work/prefix/bin/cairn" verify "$root/tests/golden/orbax/demo" >/dev/null
fi
[ -n "$listed" ] || { echo "the consumer listed nothing" >&2; exit 1; }
echo "A program built with find_package(cairn) listed $(echo "$listed" | wc -l) tensors."
