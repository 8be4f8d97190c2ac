#!/usr/bin/env bash
# Makes a virtual environment of Python packages: test-env.sh FOLDER REQUIREMENTS [PYTHON]. Does
# nothing if it is up to date.
set -euo pipefail
folder=$1
requirements=$2
stamp=$folder/$(sha256sum "$requirements" | cut -c1-16).stamp
[ -f "$stamp" ] && exit 0

# The first Python that can make environments and speak TLS: a self-built one may lack either.
for python in ${3:-python3 /usr/bin/python3}; do
  if "$python" -c 'import ssl, venv, ensurepip' 2>/dev/null; then break; fi
  python=
done
[ -n "${python:-}" ] || { echo "No python3 with ssl and venv found; install python3-venv" >&2; exit 1; }

echo "Installing the Python packages of $requirements into $folder"
[ -x "$folder/bin/python" ] || "$python" -m venv "$folder"
"$folder/bin/python" -m pip install --quiet --disable-pip-version-check -r "$requirements"
touch "$stamp"
