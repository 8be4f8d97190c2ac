#!/usr/bin/env bash
# Prints the path of a CPython for a row of the matrix: python.sh VERSION PATCHELF, as 3.14. One
# that the machine has comes first (scripts/pythons.sh). Otherwise it comes from the packages of
# Debian sid, with the C library that they need, into build/matrix/pythons/VERSION, once; nothing is
# installed. PATCHELF, a command, makes the program use that library. If there is none, prints why
# to standard error and exits with 1.
set -euo pipefail
source scripts/debian-packages.sh
version=$1
patchelf=$2
folder=$PWD/build/matrix/pythons/$version
program=$folder/usr/bin/python$version
fail() { echo "CPython $version: $1" >&2; exit 1; }
fail_with_apt() { echo "$apt_output" >&2; fail "$1"; }

found=$(scripts/pythons.sh | awk -v wanted="$version" '$1 == wanted { print $2 }')
if [ -n "$found" ]; then
  echo "$found"
  exit 0
fi
if [ -f "$folder/complete" ]; then
  echo "$program"
  exit 0
fi
command -v apt-get >/dev/null || fail "this machine has none, and no apt to get one"

work=$folder.work
rm -rf "$folder" "$work" && mkdir -p "$folder" "$work"
trap 'rm -rf "$work"' EXIT
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
  "http://deb.debian.org/debian sid main" >"$work/sources.list"
update_own_lists 300 "$work/apt" -o "Dir::Etc::SourceList=$work/sources.list" \
  -o Dir::Etc::SourceParts=- || fail_with_apt "apt cannot read the lists of Debian sid"
plan_packages '' "python$version-venv" libstdc++6 ||
  fail "this machine has none, and neither has Debian sid"
download_packages 300 "$work/packages" || fail_with_apt "apt cannot download its packages"
extract_packages "$work/packages" "$folder" || fail "$apt_output"
"$patchelf" --set-interpreter "$folder/usr/lib64/ld-linux-x86-64.so.2" \
  --force-rpath --set-rpath "$folder/usr/lib/x86_64-linux-gnu" "$program"
"$program" -c 'import bz2, ctypes, ssl, venv, zlib' || fail "the program does not run"
touch "$folder/complete"
echo "$program"
