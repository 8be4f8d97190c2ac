"""Arrays, and what describes them."""

from typing import Any, Protocol

from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax.arrays import to_shape_dtype_struct

Shape = tuple[int, ...]

_missing = _hints(__name__)


class AbstractArray(Protocol):
    """What stands for an array of NumPy in a target. dtype None: as stored."""

    shape: "Shape | None"
    dtype: Any


class AbstractShardedArray(Protocol):
    """What stands for an array of JAX in a target. sharding None: as stored."""

    shape: "Shape | None"
    dtype: Any
    sharding: Any


ArrayLike = AbstractArray | AbstractShardedArray


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
