"""Writes and reads arrays of JAX through TensorStore, by specs that programs give.

Checkpointers do not use it: Cairn's native code writes and reads their arrays.
"""

import asyncio
import math
from typing import Any

from cairn import _jax
from cairn.orbax._impl.base import monitoring
from cairn.orbax._impl.base.processes import is_primary_host
from cairn.orbax._impl.base.replica_parts import parts_to_write, written_shape
from cairn.orbax._impl.leaves.leaf_reads import numpy_dtype
from cairn.orbax._impl.leaves.shardings import concrete_sharding, has_layout
from cairn.orbax._impl.types.byte_limits import ByteLimiter, get_byte_limiter, reserved_bytes
from cairn.orbax._impl.types.kvstore_specs import get_ts_context

_Shape = tuple[int, ...]


def _has_metadata(spec: Any) -> bool:
    """Whether a spec, or one inside it (below "cast", say), gives the metadata of the array."""
    if not isinstance(spec, dict):
        return False
    return "metadata" in spec or any(map(_has_metadata, spec.values()))


async def async_serialize(
    arr_inp: Any,
    tensorstore_spec: "dict[str, Any]",
    context: Any = None,
    primary_host: "int | None" = 0,
    replica_id: int = 0,
    use_replica_parallel: bool = True,
    transaction: Any = None,
    byte_limiter: "ByteLimiter | None" = None,
) -> None:
    """Writes what this process has of an array of JAX. All processes call it.

    Needs the package tensorstore.

    Args:
      arr_inp: the array.
      tensorstore_spec: where to write it. A spec without `metadata` or `dtype` gets them, in place:
        chunks of the pieces that are written, compressed by zstd.
      context: the tensorstore.Context; None: that of get_ts_context(use_ocdbt=False).
      primary_host: the process that makes the array; None: each process makes one of its own.
      replica_id: the replica that writes, where use_replica_parallel does not split the work.
      use_replica_parallel: whether replicas share the writing of what they all have.
      transaction: of TensorStore.
      byte_limiter: bounds the bytes that are being written; None: no limit.

    Raises ValueError for a part that the limiter never lets through.
    """
    import tensorstore

    limiter = byte_limiter or get_byte_limiter()
    parts = parts_to_write(arr_inp, replica_id, use_replica_parallel)
    monitoring.array_written(arr_inp)
    if not _has_metadata(tensorstore_spec):
        chunks = [max(1, extent) for extent in written_shape(arr_inp, use_replica_parallel)]
        tensorstore_spec["metadata"] = {
            "compressor": {"id": "zstd"},
            "shape": list(arr_inp.shape),
            "chunks": chunks,
        }
    tensorstore_spec.setdefault("dtype", numpy_dtype(arr_inp.dtype).name)
    spec = tensorstore.Spec(tensorstore_spec)
    options = {
        "context": context or get_ts_context(use_ocdbt=False),
        "transaction": transaction,
    }
    if is_primary_host(primary_host):
        await tensorstore.open(spec, create=True, open=True, **options)
    # The others need not see what the primary has written: the spec has all of the metadata.
    store: Any = await tensorstore.open(spec, open=True, assume_metadata=True, **options)

    async def write(index: "tuple[slice, ...]", values: Any) -> None:
        async with reserved_bytes(limiter, values.nbytes):
            # An array of JAX never changes.
            await store[index].write(values, can_reference_source_data_indefinitely=True)

    await asyncio.gather(*(write(*part) for part in parts))


def estimate_write_memory_footprint(arr: Any) -> int:
    """The bytes that writing an array of NumPy takes: those of its elements."""
    return int(arr.size * arr.dtype.itemsize)


def estimate_read_memory_footprint(t: Any, domain: Any) -> int:
    """The bytes that reading a part of an open array takes: those of the chunks that it touches.

    domain: a tensorstore.IndexDomain; None: all. A store without chunks reads the part alone.
    """
    domain = t.domain if domain is None else domain
    chunk = t.chunk_layout.read_chunk_template
    size = int(t.dtype.numpy_dtype.itemsize)
    if not all(chunk[axis].finite for axis in range(t.rank)):
        return int(size * math.prod(domain.shape))
    for axis in range(t.rank):
        begin = domain.origin[axis] - chunk.origin[axis]
        end = begin + domain.shape[axis]
        extent = chunk.shape[axis]
        size *= (-(-end // extent) - begin // extent) * extent
    return int(size)


async def async_deserialize(
    user_sharding: Any,
    tensorstore_spec: Any,
    global_shape: "tuple[int, ...] | None" = None,
    dtype: Any = None,
    *,
    byte_limiter: "ByteLimiter | None" = None,
    context: Any = None,
    assume_metadata: bool = False,
    strict: bool = True,
) -> "tuple[Any, int]":
    """Reads an array of JAX, and returns it and the bytes of the chunks that were read.

    Needs the package tensorstore.

    Args:
      user_sharding: the sharding of the array, or a jax.experimental.layout.Format.
      tensorstore_spec: a tensorstore.Spec or its JSON.
      global_shape: of the array; None: the stored one.
      dtype: the type to which the values are converted; None: the stored one.
      byte_limiter: bounds the bytes that are being read; None: no limit.
      context: the tensorstore.Context; None: that of get_ts_context(use_ocdbt=False).
      assume_metadata: whether the spec has the metadata, so that they are not read.
      strict: False: an array of another shape is cut, or filled with zeros.

    Raises ValueError for what is not a sharding, for an array of another shape if `strict`, and
    for parts that cannot be read.
    """
    import jax
    import tensorstore

    limiter = byte_limiter or get_byte_limiter()
    sharding = concrete_sharding(user_sharding)
    if not isinstance(sharding, jax.sharding.Sharding):
        raise ValueError(f"expected a jax.sharding.Sharding of devices, found {sharding!r}")
    store: Any = await tensorstore.open(
        tensorstore_spec,
        open=True,
        assume_metadata=assume_metadata,
        context=context or get_ts_context(use_ocdbt=False),
    )
    shape = tuple(store.shape if global_shape is None else global_shape)
    if sharding.shard_shape(shape) != store.shape:
        monitoring.shard_shape_changed()
    if strict and shape != store.shape:
        raise ValueError(
            f"the array is stored with the shape {tuple(store.shape)}, and {shape} was asked for; "
            "strict=False (in version 1: enable_padding_and_truncation=True) cuts it or fills it "
            "with zeros"
        )
    devices: dict[tuple[_Shape, _Shape], list[Any]] = {}  # by part: its origin and shape
    for device, origin, extents in _jax.boxes(sharding, shape):
        devices.setdefault((tuple(origin), tuple(extents)), []).append(device)
    parts = [_read(store, origin, extents, dtype, limiter) for origin, extents in devices]
    placed = []
    read = 0
    for (values, size), targets in zip(await asyncio.gather(*parts), devices.values(), strict=True):
        read += size
        placed += [(device, values) for device in targets]
    if has_layout(user_sharding):
        return _with_layout(user_sharding, shape, placed), read
    return _jax.assemble(sharding, shape, placed), read


async def _read(
    store: Any, origin: _Shape, shape: _Shape, dtype: Any, limiter: ByteLimiter
) -> "tuple[Any, int]":
    """The values of a part, zeros beyond the stored ones, and the bytes that were read."""
    import numpy as np
    import tensorstore

    kept = tuple(
        slice(0, max(0, min(begin + extent, stored) - begin))
        for begin, extent, stored in zip(origin, shape, store.shape, strict=True)
    )
    wanted = tuple(slice(begin, begin + one.stop) for begin, one in zip(origin, kept, strict=True))
    values = np.zeros(shape, store.dtype.numpy_dtype)
    if any(one.stop == 0 for one in kept):
        return _cast(values, dtype), 0
    domain = tensorstore.IndexDomain(
        inclusive_min=[one.start for one in wanted], exclusive_max=[one.stop for one in wanted]
    )
    size = estimate_read_memory_footprint(store, domain)
    async with reserved_bytes(limiter, size):
        try:
            await tensorstore.array(values)[kept].write(store[wanted])
        except Exception as error:
            raise ValueError(f"cannot read {wanted} of {store.spec()}: {error}") from error
        # In a thread: the event loop has other parts to read.
        return await asyncio.to_thread(_cast, values, dtype), size


def _cast(values: Any, dtype: Any) -> Any:
    return values if dtype is None else values.astype(numpy_dtype(dtype), copy=False)


def _with_layout(chosen: Any, shape: "tuple[int, ...]", placed: "list[tuple[Any, Any]]") -> Any:
    """An array of the values for each device, in the layout of a Format."""
    import jax

    kind = chosen.sharding.memory_kind
    places = [jax.sharding.SingleDeviceSharding(one, memory_kind=kind) for one, _ in placed]
    formats = [type(chosen)(chosen.layout, place) for place in places]
    arrays = jax.device_put([values for _, values in placed], formats)
    return jax.make_array_from_single_device_arrays(shape, chosen.sharding, arrays)
