#!/usr/bin/env bash
# Makes the files of a release from the last commit, in build/release-files.
#
# Packs the source archive, unpacks it, and builds the rest from that. Two runs on one system make
# the same bytes, wherever the clones lie (scripts/dist-twice.sh): all times are the time of the
# commit, no file has the path of its build folder, and archives are sorted.
#
# CAIRN_WHEELS names the CPythons that get a wheel, as for scripts/wheel.sh. JOBS bounds the
# processes of the compiler.
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."
parts=$PWD/scripts/dist
out=$PWD/build/release-files
work=$PWD/build/release-work
version=$(scripts/version.sh)
git diff --quiet HEAD || echo "dist.sh: takes the last commit, without the changes after it" >&2
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
COMMIT=$(git rev-parse HEAD)
export SOURCE_DATE_EPOCH COMMIT LC_ALL=C TZ=UTC PYTHONHASHSEED=0

rm -rf "$work" "$out"
mkdir -p "$work" "$out"
sources=cairn-$version
git -c tar.umask=0022 archive --format=tar --prefix="$sources/" HEAD |
  gzip -9n >"$out/$sources.tar.gz"
tar -xzf "$out/$sources.tar.gz" -C "$work"
cd "$work/$sources"

# The shortest name for the build folder: messages of assertions and debug information have it.
export CXXFLAGS="-ffile-prefix-map=$PWD=."
scripts/configure.sh static -DCAIRN_WITH_MPI=ON
cmake --build --preset static -j "${JOBS:-$(nproc)}"
cmake --build --preset release -j "${JOBS:-$(nproc)}"

scripts/deb.sh build/release build/deb >/dev/null
cp build/deb/*.deb "$out"
scripts/wheel.sh >/dev/null
cp build/dist/*.whl build/dist/*.tar.gz "$out"
"$parts/static.sh" build/release "cairn-$version-linux-$(uname -m)" "$out"
python3 "$parts/sbom.py" "$version" >"$out/cairn-$version.cdx.json"

cd "$out"
touch -d "@$SOURCE_DATE_EPOCH" ./*
sha256sum -- * >"$work/SHA256SUMS"
mv "$work/SHA256SUMS" .
ls -l
