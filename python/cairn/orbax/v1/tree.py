"""Trees: types for annotations, and merge()."""

from typing import Any, Generic, TypeVar

from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax.tree import merge_trees as merge
from cairn.orbax.v1 import arrays as _arrays

_Leaf = TypeVar("_Leaf")

PyTreeKey = Any
PyTreeKeyPath = tuple[Any, ...]
JsonType = Any
PyTreeMetadata = Any

_missing = _hints(__name__)


class PyTree:
    """Stands for a tree of JAX's registry."""


class PyTreeOf(Generic[_Leaf]):
    """Stands for a tree with leaves of a type."""


def __getattr__(name: str) -> Any:
    if name == "Leaf":
        import jax
        import numpy as np

        return jax.Array | np.ndarray | _arrays.Scalar | str
    if name == "AbstractLeaf":
        return _arrays.ArrayLike | _arrays.AbstractScalar | str
    return _missing(name)


__all__ = [  # noqa: F822
    "AbstractLeaf",
    "JsonType",
    "Leaf",
    "PyTree",
    "PyTreeKey",
    "PyTreeKeyPath",
    "PyTreeOf",
    "merge",
]
