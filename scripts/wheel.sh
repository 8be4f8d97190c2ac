#!/usr/bin/env bash
# Builds the package's sdist and wheels into build/dist: wheel.sh [VERSION...]. Without versions, as
# 3.11, for those of CAIRN_WHEELS, or for every CPython that scripts/pythons.sh lists. 3.10 and 3.11
# have a wheel each; one of the stable ABI serves 3.12 and everything after it. A free-threaded
# CPython, as 3.14t, cannot load the stable ABI and has a wheel of its own. auditwheel copies the
# shared libraries into them.
#
# The library and the command are those that make build has built, as in python-package.sh. Does
# nothing if build/dist is up to date.
set -euo pipefail
dist=build/dist
requirements=scripts/wheel-requirements.txt
prefix=build/python/prefix

# shellcheck disable=SC2086  # a list of words
[ $# -gt 0 ] || set -- ${CAIRN_WHEELS:-}
pythons=$(scripts/pythons.sh)
[ $# -eq 0 ] || pythons=$(awk -v wanted=" $* " 'index(wanted, " " $1 " ")' <<<"$pythons")
if [ -z "$pythons" ]; then
  echo "wheel.sh: found no CPython ${*:-of 3.10 or later} with its headers and venv" >&2
  exit 1
fi
# Of the versions that share the stable ABI, the first is enough.
pythons=$(awk '/^(3\.1[01]|[0-9.]+t) / || !stable++' <<<"$pythons")

cmake --install build/release --prefix "$prefix" >/dev/null
# Not by git, which knows no files of an unpacked source archive.
sources=$(find cairn cli cmake include python pyproject.toml CMakeLists.txt README.md scripts/wheel.sh \
  scripts/stable-abi.sh scripts/wheel-licences.py "$requirements" -type f \
  -not -path '*/__pycache__/*' -not -path '*/cairn/bin/*' -not -name '*.so' | LC_ALL=C sort)
# shellcheck disable=SC2086  # a list of words
state=$({ cat $sources "$(find "$prefix" -name libcairn.a)"; echo "$pythons"; } | sha256sum)
stamp=$dist/.${state:0:16}.stamp
if [ -f "$stamp" ]; then
  echo "Up to date:" "$dist"/*
  exit 0
fi
rm -rf "$dist" build/wheel
mkdir -p "$dist" build/wheel

while read -r version python; do
  venv=build/wheel-venv/$version
  scripts/test-env.sh "$venv" "$requirements" "$python"
  "$venv/bin/python" -m pip wheel --quiet --disable-pip-version-check --no-build-isolation \
    --no-deps --wheel-dir build/wheel . \
    --config-settings cmake.source-dir=python \
    --config-settings cmake.define.CMAKE_PREFIX_PATH="$PWD/$prefix" \
    --config-settings build-dir="build/python/wheel-$version" \
    --config-settings build.targets=cairn_python
done <<<"$pythons"
# Sources that are changed must compile for the stable ABI, also where its wheel is not built.
compgen -G 'build/wheel/*-cp312-abi3-*.whl' >/dev/null || scripts/stable-abi.sh "$venv/bin/python"

# The last environment has the tools for all wheels.
PATH=$PWD/$venv/bin:$PATH
auditwheel repair --wheel-dir "$dist" build/wheel/*.whl >build/wheel/auditwheel.log 2>&1 ||
  { cat build/wheel/auditwheel.log >&2; exit 1; }
"$venv/bin/python" scripts/wheel-licences.py "$dist"/*.whl
"$venv/bin/python" -c "from scikit_build_core.build import build_sdist; build_sdist('$dist')" \
  >build/wheel/sdist.log 2>&1 || { cat build/wheel/sdist.log >&2; exit 1; }
touch "$stamp"
ls "$dist"/*
