"""Placeholders for arrays in a target."""

from typing import Any, Protocol

Shape = tuple[int, ...]


class AbstractArray(Protocol):
    """A placeholder for an array of NumPy in a target. dtype None: the stored type."""

    shape: "Shape | None"
    dtype: Any


class AbstractShardedArray(Protocol):
    """A placeholder for an array of JAX in a target. sharding None: the stored sharding."""

    shape: "Shape | None"
    dtype: Any
    sharding: Any


ArrayLike = AbstractArray | AbstractShardedArray
