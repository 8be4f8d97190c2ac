#!/usr/bin/env bash
# clang-format over everything tracked, clang-tidy over the library and the command: lint.sh JOBS.
set -euo pipefail
jobs=$1
git ls-files '*.cc' '*.h' | grep -v golden/ | xargs clang-format --dry-run --Werror
scripts/configure.sh release
# A file is checked again only when it, or any header, changed since it last passed.
stamps=build/lint
mkdir -p "$stamps"
headers=$(git ls-files '*.h' .clang-tidy | xargs cat | sha256sum | cut -c1-16)
git ls-files 'cairn/*.cc' 'cli/*.cc' | while read -r file; do
  stamp=$stamps/$(echo "$file" | tr / _).$( (echo "$headers"; cat "$file") | sha256sum | cut -c1-16)
  [ -f "$stamp" ] || printf '%s %s\n' "$file" "$stamp"
done | xargs -r -P "$jobs" -L 1 bash -c 'clang-tidy --quiet -p build/release "$0" 2>"$1.log" && touch "$1" && rm "$1.log"'
echo "Format and lint are clean."
