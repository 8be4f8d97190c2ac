#!/usr/bin/env bash
# Checks that the Python module compiles for the stable ABI of CPython 3.12, which hides much of the
# API: stable-abi.sh PYTHON. PYTHON has nanobind. The headers are those of the first CPython of 3.12
# or later on this machine; without one, nothing is checked. Compiles nothing to code, so it takes
# seconds; `make test-long` builds the wheel itself.
set -euo pipefail
nanobind=$("$1" -m nanobind --include_dir)
python=$(scripts/pythons.sh | awk '!/^(3\.1[01]|[0-9.]+t) / { print $2; exit }')
if [ -z "$python" ]; then
  echo "stable-abi.sh: not checked; found no CPython of 3.12 or later with its headers"
  exit 0
fi
headers=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')
printf '#include "%s"\n' "$PWD"/python/src/*.cc "$PWD"/python/src/values/*.cc |
  c++ -std=c++20 -fsyntax-only -fvisibility=hidden -DPy_LIMITED_API=0x030C0000 -DNB_DOMAIN=cairn \
    -isystem "$nanobind" -isystem "$headers" -Iinclude -x c++ -
