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
[ -n "$listed" ] || { echo "the consumer listed nothing" >&2; exit 1; }
echo "A program built with find_package(cairn) listed $(echo "$listed" | wc -l) tensors."
