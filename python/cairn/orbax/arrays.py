"""Descriptions of arrays, and shardings for them."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.leaves.arrays import (
    Index,
    Shape,
    construct_maximal_shardings,
    to_shape_dtype_struct,
)

__getattr__ = _hints(__name__)

__all__ = [
    "Index",
    "Shape",
    "construct_maximal_shardings",
    "to_shape_dtype_struct",
]
