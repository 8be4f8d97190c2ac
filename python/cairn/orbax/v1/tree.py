"""Trees: types for annotations, and merge()."""

from typing import Any

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.trees.merge import merge_trees as merge
from cairn.orbax._impl.v1.tree_types import PyTree, PyTreeOf
from cairn.orbax.v1 import arrays as _arrays

PyTreeKey = Any
PyTreeKeyPath = tuple[Any, ...]
JsonType = Any
PyTreeMetadata = Any

_missing = _hints(__name__)


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
