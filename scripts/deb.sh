#!/usr/bin/env bash
# Makes Debian packages of what a build folder installs: deb.sh BUILD FOLDER. Replaces those of an
# earlier run; its output appears only if it fails.
set -euo pipefail
build=$1
folder=$2
mkdir -p "$folder"
rm -f "$folder"/*.deb
if ! cpack --config "$build/CPackConfig.cmake" -G DEB -B "$folder" >"$folder/cpack.log" 2>&1; then
  cat "$folder/cpack.log" >&2
  exit 1
fi
rm -rf "$folder/_CPack_Packages"
ls "$folder"/*.deb
