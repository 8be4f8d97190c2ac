#!/usr/bin/env bash
# Makes a release twice and compares all bytes: dist-twice.sh. The two clones lie at paths of
# different lengths, and differ in their users' settings, their language and their time zone; the
# second is made later. Uses ccache unless CCACHE_DISABLE is set, as before a release.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
work=$source/build/dist-twice
rm -rf "$work"

make_in() {  # FOLDER UMASK SETTING...
  local folder=$work/$1 mask=$2
  shift 2
  git clone --quiet "$source" "$folder"
  (umask "$mask" && cd "$folder" && env "$@" scripts/dist.sh) >"$folder.log" 2>&1 ||
    { cat "$folder.log" >&2; exit 1; }
}
make_in one 022 TZ=UTC LANG=C
make_in another/with/a/longer/path 077 TZ=Asia/Tokyo LANG=C.UTF-8
one=$work/one/build/release-files
other=$work/another/with/a/longer/path/build/release-files
(cd "$one" && sha256sum --quiet --check SHA256SUMS)
diff --recursive --brief "$one" "$other" ||
  { echo "dist-twice.sh: the two releases differ" >&2; exit 1; }
echo "Two releases are equal byte for byte:"
cat "$one/SHA256SUMS"
