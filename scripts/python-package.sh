#!/usr/bin/env bash
# Installs the Python package into an environment, built against the library that make build has
# built: python-package.sh VENV. `pip install .` builds the library, too. Does nothing if what is
# installed is up to date.
set -euo pipefail
venv=$1
prefix=build/python/prefix
cmake --install build/release --prefix "$prefix" >/dev/null
sources=$(git ls-files --cached --others --exclude-standard python pyproject.toml)
# shellcheck disable=SC2086  # a list of words
stamp=build/python/$(cat $sources "$(find "$prefix" -name libcairn.a)" | sha256sum | cut -c1-16).$(basename "$venv").stamp
[ -f "$stamp" ] && exit 0
rm -f build/python/*."$(basename "$venv").stamp"  # of what is replaced

requirements=$(python3 - <<'PY'
import re
text = open("pyproject.toml").read()
print(*re.findall(r'"([^"]+)"', re.search(r"^requires = \[(.*)\]", text, re.M)[1]))
PY
)
# shellcheck disable=SC2086  # a list of words
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check $requirements
# An unrelated distribution writes into the same folder.
"$venv/bin/python" -m pip uninstall --quiet --yes cairn 2>/dev/null
"$venv/bin/python" -m pip install --quiet --disable-pip-version-check --no-build-isolation \
  --no-deps --force-reinstall . \
  --config-settings cmake.source-dir=python \
  --config-settings cmake.define.CMAKE_PREFIX_PATH="$PWD/$prefix" \
  --config-settings build-dir="build/python/$(basename "$venv")" \
  --config-settings build.targets=cairn_python
touch "$stamp"
