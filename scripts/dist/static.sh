#!/usr/bin/env bash
# Packs the static program with its pages and the licences of what it carries: static.sh BUILD NAME
# FOLDER makes FOLDER/NAME.tar.gz, which has one folder, NAME. SOURCE_DATE_EPOCH is the time of all
# files.
set -euo pipefail
build=$1
name=$2
folder=$3
here=$(dirname "$0")
tree=$build/static-archive
rm -rf "$tree"
cmake --install "$build" --component static --strip --prefix "$tree/$name" >/dev/null
python3 "$here/third_party.py" "$tree/$name/share/doc/cairn/third-party"
tar --create --directory "$tree" --format=gnu --sort=name --mtime="@$SOURCE_DATE_EPOCH" \
  --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' "$name" |
  gzip -9n >"$folder/$name.tar.gz"
