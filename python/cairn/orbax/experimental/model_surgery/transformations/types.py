"""The type of transformations."""

from typing import Any, Protocol

from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax.tree import PyTreeOf

__getattr__ = _hints(__name__)


class Transformation(Protocol):
    """A function from trees of arrays to one tree."""

    def __call__(self, *source_array_trees: Any) -> Any: ...


__all__ = ["PyTreeOf", "Transformation"]
