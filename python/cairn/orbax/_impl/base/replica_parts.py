"""Which part of an array of JAX each replica of a shard writes, so that replicas share the work."""

import math
from typing import Any

from cairn._jax import box

Part = tuple[tuple[slice, ...], Any]  # where it is in the array, and its values


def replica_count(array: Any) -> int:
    """How many devices hold each part of an array."""
    indices = array.sharding.devices_indices_map(array.shape).values()
    parts = {tuple(map(tuple, box(index, array.shape))) for index in indices}
    return len(array.sharding.device_set) // len(parts)


def shared_axis(array: Any, most: "int | None" = None) -> "tuple[int, tuple[int, ...], int] | None":
    """The axis along which replicas split a shard, the shape of a piece, and how many there are.

    It is the first axis that splits evenly. most: the most replicas that write. None: one replica
    writes the whole shard, because no axis does or nobody else has it.
    """
    shape = array.sharding.shard_shape(array.shape)
    count = replica_count(array)
    if most is not None:
        count = min(count, most)
    if count <= 1 or math.prod(shape) == 0:
        return None
    for axis, extent in enumerate(shape):
        if extent % count == 0:
            return axis, (*shape[:axis], extent // count, *shape[axis + 1 :]), count
    return None


def written_shape(
    array: Any, use_replica_parallel: bool = True, most: "int | None" = None
) -> "tuple[int, ...]":
    """The shape of the pieces that are written whole. most: as for shared_axis()."""
    shared = shared_axis(array, most) if use_replica_parallel else None
    return tuple(array.sharding.shard_shape(array.shape)) if shared is None else shared[1]


def parts_to_write(
    array: Any, replica_id: "int | None", use_replica_parallel: bool
) -> "list[Part]":
    """Returns the parts of an array that this process writes: their places, and host copies.

    replica_id: the replica that writes the shards that are not shared; None: the first one that
    this process has. Raises ValueError for None with use_replica_parallel.
    """
    import numpy as np

    if use_replica_parallel and replica_id is None:
        raise ValueError("use_replica_parallel needs a replica_id, because processes share")
    shared = shared_axis(array) if use_replica_parallel else None
    shards = array.addressable_shards
    if shared is None:
        chosen = shards[0].replica_id if replica_id is None else replica_id
        shards = [shard for shard in shards if shard.replica_id == chosen]
    else:
        shards = [shard for shard in shards if shard.replica_id < shared[2]]
    for shard in shards:
        shard.data.copy_to_host_async()  # all at once
    return [_part(shard, array.shape, shared, np.asarray(shard.data)) for shard in shards]


def _part(shard: Any, shape: "tuple[int, ...]", shared: Any, values: Any) -> "Part":
    origin, extents = box(shard.index, shape)
    if shared is not None:
        axis, piece, _ = shared
        begin = shard.replica_id * piece[axis]
        values = values[(slice(None),) * axis + (slice(begin, begin + piece[axis]),)]
        origin = [*origin[:axis], origin[axis] + begin, *origin[axis + 1 :]]
        extents = list(piece)
    return tuple(slice(a, a + n) for a, n in zip(origin, extents, strict=True)), values
