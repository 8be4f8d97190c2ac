#!/usr/bin/env bash
# Cross-builds the package's wheel for arm64 into build/dist-arm64: wheel-arm64.sh JOBS. The wheel
# is for the CPython whose headers scripts/target-root.sh extracts; this machine needs a CPython of
# the same version. auditwheel copies the shared libraries of arm64 into the wheel, and names it
# after the glibc that all of them need.
set -euo pipefail
jobs=$1
dist=build/dist-arm64
target=$PWD/build/arm64-root
prefix=$PWD/build/arm64-prefix
triplet=aarch64-linux-gnu

scripts/target-root.sh arm64
headers=$(echo "$target"/root/usr/include/python3.*)
version=${headers##*/python}
python=$(scripts/pythons.sh | awk -v wanted="$version" '$1 == wanted { print $2 }')
if [ -z "$python" ]; then
  echo "wheel-arm64.sh: found no CPython $version with its headers and venv" >&2
  exit 1
fi
venv=build/wheel-venv/$version
scripts/test-env.sh "$venv" scripts/wheel-requirements.txt "$python"

scripts/configure.sh arm64
cmake --build build/arm64 -j "$jobs" --target cairn_installed
rm -rf "$dist" build/wheel-arm64 "$prefix"
cmake --install build/arm64 --prefix "$prefix" >/dev/null

# CMake looks for packages in the folder of the libraries only, so it gets the paths of the others.
defined=(
  "CMAKE_TOOLCHAIN_FILE=$PWD/cmake/toolchains/debian.cmake"
  "CAIRN_TRIPLET=$triplet"
  "CAIRN_SYSROOT=$target/root"
  "CAIRN_COMMAND=$prefix/bin/cairn"
  "cairn_DIR=$(dirname "$(find "$prefix" -name cairn-config.cmake)")"
  "nanobind_DIR=$("$venv/bin/python" -m nanobind --cmake_dir)"
  "Python_INCLUDE_DIR=$headers"
)
_PYTHON_HOST_PLATFORM=linux-aarch64 SETUPTOOLS_EXT_SUFFIX=.cpython-${version/./}-$triplet.so \
  "$venv/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-build-isolation \
  --no-deps --wheel-dir build/wheel-arm64 . \
  --config-settings cmake.source-dir=python \
  "${defined[@]/#/--config-settings=cmake.define.}" \
  --config-settings build-dir=build/python/wheel-arm64 \
  --config-settings build.targets=cairn_python

PATH=$PWD/$venv/bin:$PATH
auditwheel repair --wheel-dir "$dist" \
  --ldpaths "$target/root/usr/lib/$triplet:$target/root/lib/$triplet" \
  build/wheel-arm64/*.whl >build/wheel-arm64/auditwheel.log 2>&1 ||
  { cat build/wheel-arm64/auditwheel.log >&2; exit 1; }
"$venv/bin/python" scripts/wheel-licences.py --target "$target" "$dist"/*.whl
ls "$dist"/*
