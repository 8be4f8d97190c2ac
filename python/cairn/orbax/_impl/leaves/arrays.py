"""Descriptions of arrays, and shardings for them."""

import math
import string
from typing import Any

from cairn.orbax._impl.leaves.leaf_reads import is_key_dtype
from cairn.orbax._impl.leaves.restore_args import sharding_of

Index = tuple[slice, ...]
Shape = tuple[int, ...]


def to_shape_dtype_struct(
    arr: Any, dtype: Any = None, scalar_dtype: Any = None, support_format: bool = False
) -> Any:
    """A jax.ShapeDtypeStruct of an array, of ArrayRestoreArgs or of metadata. Numbers stay.

    Args:
      arr: what has shape (or global_shape), dtype and sharding; an array of NumPy; a number.
      dtype: a type in place of its own.
      scalar_dtype: a type of Python to which a number is converted.
      support_format: whether the result has the layout of an array in the devices' memory, too.

    Raises ValueError for what has no shape.
    """
    import jax
    import numpy as np

    if isinstance(arr, int | float | np.number):
        return arr if scalar_dtype is None else scalar_dtype(arr)
    if isinstance(arr, jax.Array) and is_key_dtype(arr.dtype):
        arr = jax.random.key_data(arr)
    shape = getattr(arr, "global_shape", None) or getattr(arr, "shape", None)
    if shape is None:
        raise ValueError(f"Object does not have a `shape`: {arr!r}")
    sharding = None if isinstance(arr, np.ndarray) else sharding_of(arr, support_format)
    return jax.ShapeDtypeStruct(shape, dtype or arr.dtype, sharding=sharding)  # type: ignore[no-untyped-call]


def construct_maximal_shardings(abstract_state: Any, devices: Any = None) -> Any:
    """For each jax.ShapeDtypeStruct of a tree, a sharding that splits it as much as possible.

    The longest dimensions are split first, each into the greatest common divisor of its length and
    the number of devices that are left. An array whose dimensions are all shorter than the number
    of JAX's devices is replicated. devices: None for all.
    """
    import jax

    return jax.tree_util.tree_map(
        lambda array: _maximal_sharding(array.shape, devices), abstract_state
    )


def _maximal_sharding(shape: "tuple[int, ...]", devices: Any) -> Any:
    import jax
    import numpy as np

    devices = np.asarray(devices or jax.devices())
    left = devices.size if shape and max(shape) >= jax.device_count() else 1
    splits: dict[int, int] = {}  # by dimension
    for at in np.argsort(shape)[::-1].tolist():
        pieces = math.gcd(shape[at], left) if shape[at] >= left else 1
        if pieces > 1:
            splits[at] = pieces
            left //= pieces
    names = string.ascii_lowercase
    spec: list[str | None] = [None] * len(shape)
    for name, at in zip(names, splits, strict=False):
        spec[at] = name
    extents = [*splits.values(), left] if left > 1 else list(splits.values())
    if not extents:  # replicated
        extents, spec = [devices.size], []
    mesh = jax.sharding.Mesh(devices.reshape(extents), tuple(names[: len(extents)]))
    partition: Any = jax.sharding.PartitionSpec
    return jax.sharding.NamedSharding(mesh, partition(*spec))


def is_scalar(x: Any) -> bool:
    """Whether a value is a number."""
    import numpy as np

    return isinstance(x, int | float | np.number)


def fully_replicated_host_local_array_to_global_array(arr: Any) -> Any:
    """One array, on all devices of all processes, of the same values on the devices of each."""
    import jax
    import numpy as np

    parts = sorted((shard.data for shard in arr.addressable_shards), key=lambda one: one.device.id)
    shape = parts[0].shape
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
    spec = jax.sharding.PartitionSpec(*([None] if shape else []))  # type: ignore[no-untyped-call]
    return jax.make_array_from_single_device_arrays(
        shape, jax.sharding.NamedSharding(mesh, spec), parts
    )
