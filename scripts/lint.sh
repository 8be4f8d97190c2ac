#!/usr/bin/env bash
# clang-format over everything tracked, clang-tidy over the library and the command: lint.sh JOBS.
# build/release must be configured with the tests and the static command.
set -euo pipefail
jobs=$1
# Compared by hand: clang-format 14 --dry-run reports files that it would not change.
git ls-files '*.cc' '*.h' | grep -v golden/ | xargs -P "$jobs" -n 32 bash -c \
  'status=0; for file; do clang-format "$file" | cmp -s - "$file" || { echo "$file: not formatted; run make format" >&2; status=1; }; done; exit $status' format
# A source is checked again only if it, or a file that it includes, changed since it passed.
mkdir -p build/lint
python3 scripts/standard_headers.py build/lint/standard.h
clang++ -std=c++20 -x c++-header -fpch-instantiate-templates build/lint/standard.h -o build/lint/standard.pch
check() {
  # The default of 225,000 nodes a function takes many times as long and has found nothing more.
  local analyzer=(-Xclang -analyzer-werror -Xclang -analyzer-output=text -Xclang -analyzer-config -Xclang max-nodes=10000
    -Xclang -analyzer-checker=core,cplusplus,deadcode,unix,security,nullability,optin.cplusplus,optin.portability)
  case $1 in
    tidy) clang-tidy --quiet -p build/lint "$2" 2>"$3.log" ;;
    alone) clang++ -std=c++20 --analyze "${analyzer[@]}" -include-pch build/lint/standard.pch -Iinclude -I. -Icli -DCAIRN_VERSION='""' -DCAIRN_MODULES='""' "$2" ;;
  esac && touch "$3" && rm -f "$3.log"
}
export -f check
python3 scripts/lint_stamps.py | xargs -r -P "$jobs" -L 1 bash -c 'check "$@"' lint
echo "Format and lint are clean."
