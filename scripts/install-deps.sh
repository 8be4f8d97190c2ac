#!/usr/bin/env bash
# Installs the system packages that are missing: install-deps.sh [build | python | package | dist |
# processors | test]. `build` is what the library and the command need, `python` adds what the
# Python package needs, `package` what Debian packages need, `dist` what a release needs,
# `processors` what tests for other processors need, and `test` (the default) is everything that
# `make test` needs.
# Debian and Ubuntu (apt); on other systems it says what to install. Runs apt as root, or through
# sudo. Without either it says what to do, and does nothing.
set -euo pipefail

build=(g++ cmake ninja-build make pkg-config
       libzstd-dev zlib1g-dev libbz2-dev liblz4-dev libblosc-dev libsnappy-dev libisal-dev libxxhash-dev
       libpcre2-dev rapidjson-dev libfmt-dev libcli11-dev)
python=(python3 python3-dev python3-venv)
package=(dpkg-dev file)
dist=(git libopenmpi-dev openmpi-bin)
processors=(g++-aarch64-linux-gnu g++-s390x-linux-gnu qemu-user)
test=(git ccache libopenmpi-dev openmpi-bin
      libgtest-dev libgmock-dev libbenchmark-dev libleveldb-dev
      libcurl4 libssl3 libcurl4-openssl-dev  # what object stores load, and a check of its constants
      clang libclang-rt-14-dev clang-format clang-tidy
      doxygen      # make docs
      groff-base   # checks the man pages
      openssl      # makes the certificate of a store
      chromium fonts-dejavu-core  # show the pages of cairn report
      zsh fish)    # the tests press keys in them

purpose=${1:-test}
case $purpose in
  build) packages=("${build[@]}") ;;
  python) packages=("${build[@]}" "${python[@]}") ;;
  package) packages=("${build[@]}" "${package[@]}") ;;
  dist) packages=("${build[@]}" "${python[@]}" "${package[@]}" "${dist[@]}") ;;
  processors) packages=("${build[@]}" "${python[@]}" "${processors[@]}") ;;
  test) packages=("${build[@]}" "${python[@]}" "${package[@]}" "${test[@]}") ;;
  *) echo "install-deps.sh: expected build, python, package, dist, processors or test, not '$purpose'" >&2; exit 2 ;;
esac

if ! command -v apt-get >/dev/null; then
  echo "This system has no apt. Install what these Debian packages hold, then run" >&2
  echo "\`cmake --preset release && cmake --build --preset release\`:" >&2
  printf '  %s\n' "${packages[@]}" >&2
  exit 1
fi

if [ "$purpose" = test ]; then
  # clang's sanitizer and fuzzer runtimes come in a package named after its version.
  version=$(apt-cache depends clang 2>/dev/null | sed -n 's/.*Depends: clang-\([0-9][0-9]*\)$/\1/p' | head -n 1)
  [ -n "$version" ] && packages=("${packages[@]/libclang-rt-14-dev/libclang-rt-$version-dev}")
fi

# A tool may also come from elsewhere: pip has cmake and ninja.
has() {
  case $1 in
    ninja-build) command -v ninja ;;
    g++ | cmake | make | pkg-config | git) command -v "$1" ;;
    *) dpkg-query -W -f='${Status}' "$1" 2>/dev/null | grep 'install ok installed' ;;
  esac >/dev/null
}
missing=()
for name in "${packages[@]}"; do
  has "$name" || missing+=("$name")
done
if [ ${#missing[@]} -eq 0 ]; then
  exit 0
fi

# Only a terminal can answer sudo's question for a password.
as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null || ! { [ -t 0 ] || sudo -n true 2>/dev/null; }; then
    { echo "${#missing[@]} system packages are missing, and only root can install them. Run this as root, or ask"
      echo "your administrator to:"
      echo
      echo "  apt-get install ${missing[*]}"
      echo
      echo "Nothing was installed or built."; } >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "Installing ${#missing[@]} system packages (apt): ${missing[*]}"
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
echo "System packages are in place."
