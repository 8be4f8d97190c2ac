#!/usr/bin/env bash
# Runs tests of the Python package with its native part under AddressSanitizer and UBSan:
# sanitized-python.sh VENV JOBS [ARGUMENTS OF PYTEST]. The library is that of build/asan, which
# sanitized.sh builds, too. Without arguments: those of the functions of cairn alone. All of
# tests/python works in this way, too, in six minutes, but for limits of time and memory.
set -euo pipefail
venv=$PWD/$1
jobs=$2
shift 2
folder=build/asan
scripts/configure.sh asan -DCAIRN_BUILD_PYTHON=ON -DPython_EXECUTABLE="$venv/bin/python"
cmake --build --preset asan --target cairn_python -j "$jobs"

# The package in a folder of its own. conftest.py takes it from there.
rm -rf "$folder/package"
mkdir -p "$folder/package"
cp -r python/cairn "$folder/package/cairn"
cp "$folder"/python/_cairn*.so "$folder/package/cairn/"

runtime=$(clang++ -print-file-name="libclang_rt.asan-$(uname -m).so")
[ -f "$runtime" ] || { echo "sanitized-python.sh: clang has no shared runtime $runtime" >&2; exit 1; }
# The interpreter is not instrumented, so the runtime must be loaded first, and libstdc++ with it:
# the runtime looks for its functions when it starts. CPython and JAX keep memory until the process
# ends, so leaks are not looked for; test_robust.py counts what a call keeps. With malloc for every
# object of Python, an access beyond one is found, too.
export LD_PRELOAD="$runtime:$(c++ -print-file-name=libstdc++.so.6)"
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1 UBSAN_OPTIONS=print_stacktrace=1
export PYTHONMALLOC=malloc CAIRN_PYTHON=$PWD/$folder/package PYTHONDONTWRITEBYTECODE=1
export PYTHONPATH=$CAIRN_PYTHON  # of the programs that tests start
export CAIRN_BIN=$PWD/build/bin/cairn
"$venv/bin/python" -c 'import cairn, os; assert cairn.__file__.startswith(os.environ["CAIRN_PYTHON"])'
# clang's runtime before 17 does not lock its allocator around fork(): a child that is made while
# another thread allocates may wait for ever. The tests of forks run without it.
if [ $# -eq 0 ]; then
  set -- -k 'not fork' tests/python/test_save_load.py tests/python/test_lazy.py tests/python/test_background.py \
    tests/python/test_robust.py tests/python/test_targets.py tests/python/test_options.py
fi
exec "$venv/bin/python" -m pytest -q -p no:cacheprovider -n "$jobs" --dist worksteal "$@"
