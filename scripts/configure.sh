#!/usr/bin/env bash
# Configures one preset, quietly: its output appears only if it fails. configure.sh PRESET [OPTION...]
set -euo pipefail
preset=$1
shift
mkdir -p build
if ! cmake --preset "$preset" "$@" >"build/configure-$preset.log" 2>&1; then
  cat "build/configure-$preset.log" >&2
  exit 1
fi
