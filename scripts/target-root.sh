#!/usr/bin/env bash
# Makes build/ARCHITECTURE-root, with the libraries of another processor: target-root.sh
# ARCHITECTURE. Downloads Debian packages and extracts them to `root`, once. `files` has a line
# `PACKAGE /PATH` for each extracted file. Needs no root, installs nothing, and leaves apt's own
# lists alone.
set -euo pipefail
architecture=$1
folder=$PWD/build/$architecture-root
packages=(libzstd-dev zlib1g-dev libbz2-dev liblz4-dev libblosc-dev libsnappy-dev libxxhash-dev
          libpcre2-dev rapidjson-dev libfmt-dev libcli11-dev libgtest-dev libgmock-dev
          libleveldb-dev libisal-dev libcurl4-openssl-dev libssl3 libc6 libstdc++6 libgcc-s1
          python3-dev)
# The cross compiler has the C library's headers.
unneeded='/(libc6-dev|libc-dev-bin|linux-libc-dev|libcrypt-dev|libnsl-dev|libtirpc-dev'
unneeded+='|rpcsvc-proto|gcc-.*-base)_'

stamp=$folder/$(sha256sum "${BASH_SOURCE[0]}" | cut -c1-16).stamp
[ -f "$stamp" ] && exit 0
rm -rf "$folder"
mkdir -p "$folder/root" "$folder/apt/lists/partial" "$folder/apt/cache/archives/partial"
: >"$folder/apt/status"
apt=(-qq -o "APT::Architecture=$architecture" -o "APT::Architectures=$architecture"
     -o APT::Sandbox::User=root -o Debug::NoLocking=true
     -o "Dir::State=$folder/apt" -o "Dir::State::lists=$folder/apt/lists"
     -o "Dir::State::status=$folder/apt/status" -o "Dir::Cache=$folder/apt/cache")
echo "Downloading the libraries of $architecture"
apt-get "${apt[@]}" update
apt-get "${apt[@]}" install -y --no-install-recommends --download-only "${packages[@]}" >/dev/null
for file in "$folder"/apt/cache/archives/*.deb; do
  [[ $file =~ $unneeded ]] && continue
  dpkg -x "$file" "$folder/root"
  dpkg --fsys-tarfile "$file" | tar -t | sed -n "/[^/]$/s|^\.|$(dpkg -f "$file" Package) |p" \
    >>"$folder/files"
done
# Links to absolute paths lead out of the folder.
find "$folder/root" -type l -lname '/*' | while read -r link; do
  ln -sfnr "$folder/root$(readlink "$link")" "$link"
done
rm -rf "$folder/apt"
touch "$stamp"
