#!/usr/bin/env bash
# Lists the CPythons of this machine that the package can be built for, 3.10 and later: one line
# `3.11 /usr/bin/python3.11` for each minor version, and one `3.14t /usr/bin/python3.14t` for each
# that is free-threaded, 3.14 and later. python3 itself comes before others of its version, and
# those of pyenv come last.
set -euo pipefail
# Names of commands, and programs. The Pythons of the tests' environments are links to one of them.
candidates=(python3 /usr/bin/python3)
for minor in {10..20} {14..20}t; do candidates+=("python3.$minor" "/usr/bin/python3.$minor"); done
candidates+=("${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3)

for candidate in "${candidates[@]}"; do
  command -v "$candidate" >/dev/null || continue
  # A build needs the headers, and an environment needs venv.
  "$candidate" -I - <<'PY' 2>/dev/null || continue
import ensurepip, os, ssl, sys, sysconfig, venv
free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
ready = (sys.implementation.name == "cpython"
         and sys.version_info >= ((3, 14) if free_threaded else (3, 10))
         and sys.version_info.releaselevel == "final" and sys.prefix == sys.base_prefix
         and os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
if not ready:
    sys.exit(1)
print("%d.%d%s %s" % (*sys.version_info[:2], "t" * free_threaded, sys.executable))
PY
done | awk '!seen[$1]++' | sort -s -V -k1,1
