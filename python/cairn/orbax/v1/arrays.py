"""Arrays, and what describes them."""

from typing import Any

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.leaves.arrays import to_shape_dtype_struct
from cairn.orbax._impl.v1.abstract_arrays import (
    AbstractArray,
    AbstractShardedArray,
    ArrayLike,
    Shape,
)

_missing = _hints(__name__)


def __getattr__(name: str) -> Any:
    if name == "DType":
        import numpy as np

        return np.dtype
    if name in ("AbstractScalar", "Scalar"):
        import numpy as np

        return int | float | np.number | bytes | bool
    return _missing(name)


__all__ = [  # noqa: F822
    "AbstractArray",
    "AbstractScalar",
    "AbstractShardedArray",
    "ArrayLike",
    "DType",
    "Scalar",
    "Shape",
    "to_shape_dtype_struct",
]
