#!/usr/bin/env bash
# Builds one sanitizer preset and runs its tests: sanitized.sh asan|tsan JOBS.
set -euo pipefail
preset=$1
jobs=$2
scripts/configure.sh "$preset"
cmake --build --preset "$preset" -j "$jobs"
# Tests that kill a process at each step fork a thousand times, and a fork copies the tables of all
# memory. So less freed memory is held back (48 MB, not 256) and fewer callers are noted (8, not 30).
export ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=0:quarantine_size_mb=48:malloc_context_size=8
export UBSAN_OPTIONS=print_stacktrace=1 TSAN_OPTIONS=second_deadlock_stack=1
# The frames of code that is checked and not optimised are many times larger; the plain build has the system's stack.
ulimit -s 65536 2>/dev/null || ulimit -s "$(ulimit -H -s)"
ctest --test-dir "build/$preset" --output-on-failure --timeout 1200 -j $((3 * jobs))  # many of them wait
