#!/usr/bin/env bash
# Makes build/ARCHITECTURE-root, with the libraries of another processor: target-root.sh
# ARCHITECTURE. Downloads Debian packages and extracts them to `root`, once. `files` has a line
# `PACKAGE /PATH` for each extracted file. Needs no root, installs nothing, and leaves apt's own
# lists alone.
set -euo pipefail
source scripts/debian-packages.sh
architecture=$1
folder=$PWD/build/$architecture-root
packages=(libzstd-dev zlib1g-dev libbz2-dev liblz4-dev libblosc-dev libsnappy-dev libxxhash-dev
          libpcre2-dev rapidjson-dev libfmt-dev libcli11-dev libgtest-dev libgmock-dev
          libleveldb-dev libisal-dev libcurl4-openssl-dev libssl3 libc6 libstdc++6 libgcc-s1
          python3-dev)
# The cross compiler has the C library's headers.
unneeded='libc6-dev|libc-dev-bin|linux-libc-dev|libcrypt-dev|libnsl-dev|libtirpc-dev'
unneeded+='|rpcsvc-proto|gcc-.*-base'
fail() { echo "$apt_output" >&2; exit 1; }

stamp=$folder/$(cat "${BASH_SOURCE[0]}" scripts/debian-packages.sh | sha256sum | cut -c1-16).stamp
[ -f "$stamp" ] && exit 0
rm -rf "$folder"
mkdir -p "$folder/root"
echo "Downloading the libraries of $architecture"
update_own_lists 0 "$folder/apt" -o "APT::Architecture=$architecture" \
  -o "APT::Architectures=$architecture" || fail
plan_packages "$unneeded" "${packages[@]}" || fail
download_packages 0 "$folder/packages" || fail
for file in "$folder"/packages/*.deb; do
  dpkg --fsys-tarfile "$file" | tar -t | sed -n "/[^/]$/s|^\.|$(dpkg -f "$file" Package) |p" \
    >>"$folder/files"
done
extract_packages "$folder/packages" "$folder/root" || fail
# Links to absolute paths lead out of the folder.
find "$folder/root" -type l -lname '/*' | while read -r link; do
  ln -sfnr "$folder/root$(readlink "$link")" "$link"
done
rm -rf "$folder/apt"
touch "$stamp"
