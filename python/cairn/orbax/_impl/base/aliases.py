"""Packages under a second name: each module is imported once, and both names lead to it."""

import importlib
import importlib.abc
import sys
import types
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from typing import Any


class _Loader(importlib.abc.Loader):
    """Gives a module that exists, and leaves its name and spec as they are."""

    def __init__(self, module: types.ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return self._module

    def exec_module(self, module: types.ModuleType) -> None:
        module.__spec__ = self._spec


class AliasFinder(importlib.abc.MetaPathFinder):
    """Finds the package `alias` and what is in it, as `package` and what is in that."""

    def __init__(self, alias: str, package: str) -> None:
        self._alias = alias
        self._package = package

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: Any = None
    ) -> "ModuleSpec | None":
        """The spec of a module below the alias; None for others.

        Raises ModuleNotFoundError if the package has no such module: no other finder may give one,
        whose classes would be others.
        """
        if name != self._alias and not name.startswith(self._alias + "."):
            return None
        ours = self._package + name.removeprefix(self._alias)
        try:
            module = importlib.import_module(ours)
        except ModuleNotFoundError as error:
            if error.name is None or not (ours + ".").startswith(error.name + "."):
                raise  # something that the module needs
            raise ModuleNotFoundError(
                f"No module named {name!r}: {self._package} stands in the place of {self._alias} "
                f"and has no {ours!r}",
                name=name,
            ) from None
        return ModuleSpec(name, _Loader(module), is_package=hasattr(module, "__path__"))


class EmptyPackageFinder(importlib.abc.MetaPathFinder):
    """Finds an empty package. It belongs at the end, where nobody else has found one."""

    def __init__(self, name: str) -> None:
        self._name = name

    def find_spec(
        self, name: str, path: "Sequence[str] | None" = None, target: Any = None
    ) -> "ModuleSpec | None":
        """The spec of the package; None for other names."""
        return ModuleSpec(name, None, is_package=True) if name == self._name else None


def add(alias: str, package: str) -> None:
    """Gives a package a second name, unless it has it."""
    for finder in sys.meta_path:
        if isinstance(finder, AliasFinder) and finder._alias == alias:
            return
    sys.meta_path.insert(0, AliasFinder(alias, package))
