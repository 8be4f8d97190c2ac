"""Modules under the names of Orbax's private ones. Their names lead to objects of cairn.orbax."""

import importlib
import sys
import types
from collections.abc import Callable
from typing import Any


def _finder(name: str, owners: "list[str]") -> "Callable[[str], Any]":
    """The function __getattr__ of a module: asks the modules that have its names."""

    def find(attribute: str) -> Any:
        is_special = attribute.startswith("__")
        for owner in () if is_special else owners:
            try:
                return getattr(importlib.import_module(f"cairn.orbax.{owner}"), attribute)
            except AttributeError:
                continue
        raise AttributeError(
            f"module {name!r} has no {attribute!r}: it has only what cairn.orbax has, and that is "
            "in the public modules of cairn.orbax, too"
        )

    return find


def _add(package: types.ModuleType, path: str, owners: str) -> None:
    """Makes a module, and the packages above it."""
    parent: Any = package
    for part in path.split("."):
        name = f"{parent.__name__}.{part}"
        module = sys.modules.get(name)
        if module is None:
            module = sys.modules[name] = types.ModuleType(name, package.__doc__)
            module.__path__ = []
            setattr(parent, part, module)
        parent = module
    parent.__getattr__ = _finder(parent.__name__, owners.split())


def add_modules(package: str, owners: "dict[str, str]") -> None:
    """Makes the modules of an imported package.

    owners: by path of a module below the package, the modules below cairn.orbax that have its
    names, with spaces between them. The first one that has a name gives it.
    """
    for path, modules in owners.items():
        _add(sys.modules[package], path, modules)
