#!/usr/bin/env bash
# Builds the documentation site in build/site: docs.sh VENV. A broken link, a page outside the
# navigation, or a public declaration without a comment fails the build.
set -euo pipefail
venv=$1
mkdir -p build/docs
rm -rf build/docs/xml
doxygen scripts/docs/Doxyfile
# Not --quiet: it would hide the warnings that --strict counts.
NO_MKDOCS_2_WARNING=1 "$venv/bin/mkdocs" build --strict 2>build/docs/mkdocs.log || { cat build/docs/mkdocs.log >&2; exit 1; }

if grep -rlE '<(script|img|iframe)[^>]* src="?(https?:)?//|<link[^>]* href="?https?://[^>]*stylesheet' build/site --include='*.html'; then
  echo "These pages need the network; every script, style and image must be part of the site." >&2
  exit 1
fi
echo "The site is in build/site; python3 -m http.server -d build/site shows it."
