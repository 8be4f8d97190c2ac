#!/usr/bin/env bash
# Lists the CPythons of this machine that the package can be built for, 3.10 and later: one line
# `3.11 /usr/bin/python3.11` for each minor version. python3 itself comes before others of its
# version, and those of pyenv come last.
set -euo pipefail
# Names of commands, and programs. The Pythons of the tests' environments are links to one of them.
candidates=(python3 /usr/bin/python3)
for minor in {10..20}; do candidates+=("python3.$minor" "/usr/bin/python3.$minor"); done
candidates+=("${PYENV_ROOT:-$HOME/.pyenv}"/versions/3.*/bin/python3)

for candidate in "${candidates[@]}"; do
  command -v "$candidate" >/dev/null || continue
  # A build needs the headers, and an environment needs venv. A free-threaded Python cannot load
  # the stable ABI, so its wheel is not among those of `make wheel`.
  "$candidate" -I - <<'PY' 2>/dev/null || continue
import ensurepip, os, ssl, sys, sysconfig, venv
ready = (sys.implementation.name == "cpython" and sys.version_info >= (3, 10)
         and sys.version_info.releaselevel == "final" and sys.prefix == sys.base_prefix
         and not sysconfig.get_config_var("Py_GIL_DISABLED")
         and os.path.exists(os.path.join(sysconfig.get_path("include"), "Python.h")))
if not ready:
    sys.exit(1)
print("%d.%d %s" % (*sys.version_info[:2], sys.executable))
PY
done | sort -s -t. -k2,2n -u
