"""Arrays and shardings of JAX. Imported when the program has imported JAX."""

from __future__ import annotations

import sys

from cairn import _cairn

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from typing import Any


def _jax() -> Any:
    return sys.modules["jax"]


def box(index: Any, shape: Any) -> tuple[list[int], list[int]]:
    """Origin and shape of the slices that JAX gives for a shard."""
    ranges = [part.indices(extent) for part, extent in zip(index, shape, strict=True)]
    return [r[0] for r in ranges], [r[1] - r[0] for r in ranges]


def axis_types(mesh: Any) -> "tuple[Any, ...] | None":
    """The type of each axis of a mesh. None in older versions of JAX, which have other ones."""
    types = getattr(mesh, "axis_types", None)
    return types if isinstance(types, tuple) else None


def describe_sharding(sharding: Any, shape: Any) -> tuple[Any, ...]:
    """A sharding in the form that the native part takes."""
    jax = _jax()
    if isinstance(sharding, jax.sharding.NamedSharding):
        mesh = sharding.mesh
        types = axis_types(mesh)
        spec = [
            [] if axes is None else [axes] if isinstance(axes, str) else list(axes)
            for axes in sharding.spec
        ]
        return (
            "named",
            list(mesh.devices.shape),
            [str(name) for name in mesh.axis_names],
            None if types is None else [kind.name for kind in types],
            [device.id for device in mesh.devices.flat],
            [[str(axis) for axis in axes] for axes in spec],
        )
    if isinstance(sharding, jax.sharding.SingleDeviceSharding):
        (device,) = sharding.device_set
        return ("single", str(device))
    parts = sharding.devices_indices_map(tuple(shape))
    return ("explicit", [(device.id, *box(index, shape)) for device, index in parts.items()])


def sharded_array(array: Any) -> Any:
    """An array of JAX with the shards of this process. Shards in host memory are not copied."""
    import numpy as np

    jax = _jax()
    implementation = ""
    if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
        implementation = str(array.dtype._impl.name)
        array = jax.random.key_data(array)
    shards = []
    for shard in array.addressable_shards:
        origin, shape = box(shard.index, array.shape)
        values = np.asarray(shard.data)
        shards.append((shard.device.id, origin, shape, shard.replica_id, values))
    return _cairn.ShardedArray(
        list(array.shape),
        array.dtype.name,
        describe_sharding(array.sharding, array.shape),
        implementation,
        shards,
    )


def boxes(sharding: Any, shape: Any) -> list[tuple[Any, list[int], list[int]]]:
    """(device, origin, shape) for each device of this process."""
    parts = sharding.addressable_devices_indices_map(tuple(shape))
    return [(device, *box(index, shape)) for device, index in parts.items()]


def assemble(sharding: Any, shape: Any, parts: list[tuple[Any, Any]]) -> Any:
    """An array of the values for each device."""
    jax = _jax()
    if len(parts) == 1 and isinstance(sharding, jax.sharding.SingleDeviceSharding):
        return jax.device_put(parts[0][1], sharding)
    # One call for all devices takes a third of the time of one for each.
    places = [memory_of(sharding, device) for device, _ in parts]
    on_devices = jax.device_put([values for _, values in parts], places)
    return jax.make_array_from_single_device_arrays(tuple(shape), sharding, on_devices)


def memory_of(sharding: Any, device: Any) -> Any:
    """The memory of a device that the sharding names: its own, or one of the host."""
    kind = sharding.memory_kind
    if kind is None or kind == device.default_memory().kind:
        return device
    return _jax().sharding.SingleDeviceSharding(device, memory_kind=kind)


def key_data_sharding(sharding: Any, rank: int) -> Any:
    """The sharding of the data of an array of random keys, whose last dimensions are not split."""
    jax = _jax()
    if sharding is None or isinstance(sharding, jax.sharding.SingleDeviceSharding):
        return sharding
    if isinstance(sharding, jax.sharding.NamedSharding):
        spec = jax.sharding.PartitionSpec(*sharding.spec, *[None] * (rank - len(sharding.spec)))
        kind = sharding.memory_kind
        return jax.sharding.NamedSharding(sharding.mesh, spec, memory_kind=kind)
    raise NotImplementedError(
        f"random keys cannot be restored with a {type(sharding).__name__}; use a NamedSharding"
    )


def check_key_sharding(name: str, sharding: Any, shape: Any) -> None:
    """Raises ValueError if a sharding divides the data of a key, which JAX takes as a whole.

    shape: that of the data of all keys.
    """
    if shape and sharding.shard_shape(tuple(shape))[-1] != shape[-1]:
        raise ValueError(
            f"{name}: a sharding of random keys cannot divide the last dimension of their data, "
            f"whose shape is {tuple(shape)}: {sharding}"
        )


def wrap_key(array: Any, implementation: str) -> Any:
    """An array of random keys of their data."""
    return _jax().random.wrap_key_data(array, impl=implementation)
