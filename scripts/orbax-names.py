#!/usr/bin/env python3
"""Lists what the public modules of the installed orbax.checkpoint have and cairn.orbax lacks.

One line a module: its name below orbax.checkpoint, and the names that are missing; "(module)" if
the whole module is. Names that a module only imports from elsewhere do not count, and neither do
modules that cannot be imported here (these are on standard error).
"""

import importlib
import inspect
import pkgutil
import sys

THEIRS, OURS = "orbax.checkpoint", "cairn.orbax"
EXTRA = "experimental.model_surgery.transformations"  # walk_packages does not find it


def is_public(name):
    parts = name.removeprefix(f"{THEIRS}.").split(".")
    if any(part.startswith("_") or part in ("testing", "conftest") for part in parts):
        return False
    is_test_helper = parts[0] == "experimental" and any("test_utils" in part for part in parts)
    return not is_test_helper and not parts[-1].endswith("_test")


def modules():
    """The public modules that can be imported, by name."""
    names = []
    for name in [THEIRS, f"{THEIRS}.{EXTRA}"]:
        try:
            package = importlib.import_module(name)
        except ModuleNotFoundError:  # an older version
            continue
        names.append(name)
        names += [found.name for found in pkgutil.walk_packages(package.__path__, f"{name}.")]
    for name in sorted(filter(is_public, names)):
        try:
            yield name, importlib.import_module(name)
        except ImportError as error:
            print(f"cannot import {name}: {error}", file=sys.stderr)


def own_names(module):
    """The public names that a module defines, or gives to objects of Orbax's private modules."""
    homes = (module.__name__, f"{THEIRS}._src", f"{THEIRS}.experimental.v1._src", "builtins")
    if ".emergency" in module.__name__:
        homes = homes[:1]  # these modules import names for themselves
    for name, value in vars(module).items():
        home = getattr(value, "__module__", None) or ""
        if not name.startswith("_") and not inspect.ismodule(value) and home.startswith(homes):
            yield name


def missing(name, module):
    try:
        ours = importlib.import_module(name.replace(THEIRS, OURS, 1))
    except ImportError:
        return ["(module)"]
    return [one for one in own_names(module) if not hasattr(ours, one)]


def main():
    for name, module in modules():
        lacking = missing(name, module)
        if lacking:
            print(f"{name.removeprefix(THEIRS).removeprefix('.')}:", *lacking)


if __name__ == "__main__":
    main()
