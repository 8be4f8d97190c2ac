#!/usr/bin/env bash
# The quick tests, for the edit loop: check.sh VENV JOBS. Leaves out, for `make test`: tests that
# kill or fail a save at every system call, sanitizers, fuzzing, lint, and the long comparisons.
set -euo pipefail
venv=$1
jobs=$2
export CAIRN_BIN=$PWD/build/bin/cairn
GTEST_FILTER='-*Crash*:*Fault*:*Kill*:*Scale*' ctest --test-dir build/release --output-on-failure --timeout 600 -j $((2 * jobs)) -E '^mpi_' >build/check.log ||
  { cat build/check.log; exit 1; }
"$venv/bin/python" -m pytest -q -n "$jobs" tests/cli/cli_test.py tests/cli/errors_test.py tests/cli/verify_test.py \
  tests/interop/orbax/test_golden.py tests/interop/orbax/test_random_trees.py tests/interop/formats/test_safetensors.py \
  tests/cli/docs/docs_test.py tests/cli/docs/docs_links_test.py tests/cli/docs/limits_test.py
echo "Quick tests passed. make test runs everything."
