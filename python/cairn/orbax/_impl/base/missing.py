"""Hints for names of Orbax's modules that cairn.orbax does not have."""

from collections.abc import Callable
from typing import Any, NoReturn

_GENERAL = "dir() shows what there is; its docstring says what cairn.orbax is for"


def hints(
    module: str, known: "dict[str, str] | None" = None, general: str = _GENERAL
) -> "Callable[[str], Any]":
    """The function __getattr__ of a module: raises AttributeError with a hint."""

    def missing(name: str) -> "NoReturn":
        hint = (known or {}).get(name, general)
        raise AttributeError(f"module {module!r} has no {name!r} yet: {hint}")

    return missing
