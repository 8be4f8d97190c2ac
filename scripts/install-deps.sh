#!/usr/bin/env bash
# Installs the system packages that building and testing Cairn needs, if any is missing. Debian and Ubuntu (apt); on
# other systems it says what to install. Runs apt as root, or through sudo.
set -euo pipefail

packages=(build-essential cmake ninja-build make pkg-config git ccache
          libzstd-dev zlib1g-dev libbz2-dev liblz4-dev libblosc-dev libsnappy-dev libisal-dev libxxhash-dev libpcre2-dev rapidjson-dev libfmt-dev libcli11-dev
          libopenmpi-dev openmpi-bin
          libgtest-dev libgmock-dev libbenchmark-dev libleveldb-dev
          clang libclang-rt-14-dev clang-format clang-tidy
          python3 python3-venv
          doxygen  # make docs
          zsh fish)  # the tests press keys in them

if ! command -v apt-get >/dev/null; then
  echo "This system has no apt. Install what these Debian packages hold, then run the command again:" >&2
  printf '  %s\n' "${packages[@]}" >&2
  exit 1
fi

# clang's sanitizer and fuzzer runtimes come in a package named after its version.
version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9][0-9]*\)$/\1/p' | head -n 1)
[ -n "$version" ] && packages=("${packages[@]/libclang-rt-14-dev/libclang-rt-$version-dev}")

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "Run this as root, or install sudo: apt-get install ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "Installing ${#missing[@]} system packages (apt): ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "System packages are in place."
