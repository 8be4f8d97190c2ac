"""What stands for an array in a target."""

from typing import Any, Protocol

Shape = tuple[int, ...]


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
