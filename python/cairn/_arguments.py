"""Arguments of several functions: flags, and the globs of `include` and `exclude`."""

from __future__ import annotations

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any


def check_flag(name: str, value: Any) -> None:
    """Raises ValueError unless an argument is True or False. "no" would be true."""
    if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):
        raise ValueError(f"{name}: expected True or False, not {value!r}")


def printable(text: str) -> str:
    """Text of a file, safe to show: control and invisible characters are escaped."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in text)


def included(given: str | Sequence[str] | None) -> list[str] | None:
    """The globs of `include`, one or a list of them, or None for all leaves.

    The native part takes an empty list for all leaves, but a list that a program has computed may
    be empty by mistake. So it is a KeyError, as a glob that matches nothing.
    """
    if given is None:
        return None
    globs = _listed(given)
    if not globs:
        raise KeyError("include: an empty list matches no leaf; None selects all leaves")
    return globs


def excluded(given: str | Sequence[str] | None) -> list[str]:
    """The globs of `exclude`. An empty list and None exclude nothing."""
    return [] if given is None else _listed(given)


def _listed(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)
