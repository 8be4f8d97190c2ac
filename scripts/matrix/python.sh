#!/usr/bin/env bash
# Prints the path of a CPython for a row of the matrix: python.sh VERSION PATCHELF, as 3.14. One
# that the machine has comes first (scripts/pythons.sh). Otherwise it comes from the packages of
# Debian sid, with the C library that they need, into build/matrix/pythons/VERSION, once; nothing is
# installed. PATCHELF, a command, makes the program use that library. If there is none, prints why
# to standard error and exits with 1.
set -euo pipefail
version=$1
patchelf=$2
folder=$PWD/build/matrix/pythons/$version
program=$folder/usr/bin/python$version
fail() { echo "CPython $version: $1" >&2; exit 1; }

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
rm -rf "$folder" "$work" && mkdir -p "$folder" "$work/lists/partial" "$work/cache/archives/partial"
trap 'rm -rf "$work"' EXIT
# Lists of packages of their own: those of the machine stay as they are.
: >"$work/status"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
  "http://deb.debian.org/debian sid main" >"$work/sources.list"
printf '%s;\n' "Dir::State::Lists \"$work/lists\"" "Dir::State::Status \"$work/status\"" \
  "Dir::Cache \"$work/cache\"" "Dir::Etc::SourceList \"$work/sources.list\"" \
  'Dir::Etc::SourceParts "-"' 'Acquire::Languages "none"' 'APT::Sandbox::User "root"' \
  >"$work/apt.conf"
export APT_CONFIG=$work/apt.conf
cd "$work"
timeout 300 apt-get update -qq >&2 || fail "apt cannot read the lists of Debian sid"
plan=$(apt-get install -s --no-install-recommends "python$version-venv" libstdc++6 2>/dev/null) ||
  fail "this machine has none, and neither has Debian sid"
mapfile -t names < <(awk '/^Inst/ { print $2 }' <<<"$plan")
timeout 300 apt-get download -qq "${names[@]}" >&2 || fail "apt cannot download its packages"
for file in *.deb; do dpkg -x "$file" "$folder"; done
"$patchelf" --set-interpreter "$folder/usr/lib64/ld-linux-x86-64.so.2" \
  --force-rpath --set-rpath "$folder/usr/lib/x86_64-linux-gnu" "$program"
"$program" -c 'import bz2, ctypes, ssl, venv, zlib' || fail "the program does not run"
touch "$folder/complete"
echo "$program"
