"""Refuses to run where another distribution has written into this package's folder.

Cairn's distribution is `cairn-checkpoint`. The index has an unrelated one named `cairn`, which also
installs a folder `cairn`. pip writes both into one folder, and each overwrites the other's
`__init__.py`. If the other one is installed last, `import cairn` runs its `__init__.py`; so every
public submodule imports this module, too.
"""

import os

_REPAIR = "Run: pip uninstall -y cairn cairn-checkpoint && pip install cairn-checkpoint"


def check_installation(package: str) -> None:
    """Raises ImportError if the files in the folder `package` may not all be Cairn's."""
    if not os.path.exists(os.path.join(package, "__init__.py")):
        raise ImportError(f"{package} has no __init__.py; a distribution removed it. {_REPAIR}")
    site = os.path.dirname(package)
    for name in os.listdir(site):  # importlib.metadata takes longer than the rest of the package
        if name.startswith("cairn-") and name.endswith((".dist-info", ".egg-info")):
            raise ImportError(
                f"{site} has {name}: the unrelated distribution `cairn` and Cairn "
                f"(`cairn-checkpoint`) are both installed there, and their files are mixed. "
                f"{_REPAIR}"
            )


check_installation(os.path.dirname(os.path.abspath(__file__)))
