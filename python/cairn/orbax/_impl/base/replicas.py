"""Replicas: the parts of a mesh along one axis, each of which has all values of a job.

A replica is often a slice of accelerators, hence Orbax's name for the module, multislice.
"""

import functools
import logging
import math
import os
from typing import Any

from cairn.orbax._impl.base import multihost, processes

_log = logging.getLogger("cairn.orbax")

MEMORY_FACTOR = 3  # a broadcast holds an array as it came, with zeros added, and as it goes
_SHARE = 0.75  # of the free memory, because the estimate is rough


def replica_devices(global_mesh: Any, *, replica_id: int = 0, replica_axis_index: int = 0) -> Any:
    """The devices of a replica, as an array of NumPy without the axis of replicas.

    For a mesh of one axis: the device with this index.
    """
    import numpy as np

    return np.take(global_mesh.devices, replica_id, axis=replica_axis_index)


def replica_count(global_mesh: Any, *, replica_axis_index: int = 0) -> int:
    """How many replicas a mesh has. A mesh of one axis is one replica."""
    devices = global_mesh.devices
    return 1 if devices.ndim == 1 else int(devices.shape[replica_axis_index])


def _processes_of_replicas(mesh: Any, axis: int) -> "list[set[int]]":
    """By replica, the processes that have devices of it."""
    count = replica_count(mesh, replica_axis_index=axis)
    return [_processes_of(mesh, number, axis) for number in range(count)]


def _processes_of(mesh: Any, replica_id: int, axis: int) -> "set[int]":
    return multihost.unique_processes_from_devices(_devices_of(mesh, replica_id, axis))


def _devices_of(mesh: Any, replica_id: int, axis: int) -> Any:
    """The devices of a replica. All of them are of the one replica of a mesh of one axis."""
    if mesh.devices.ndim == 1:
        return mesh.devices
    return replica_devices(mesh, replica_id=replica_id, replica_axis_index=axis)


def process_replica_id(process_index: int, global_mesh: Any, *, replica_axis_index: int = 0) -> int:
    """The first replica of which a process has devices; -1: none."""
    for number, members in enumerate(_processes_of_replicas(global_mesh, replica_axis_index)):
        if process_index in members:
            return number
    return -1


def in_replica(
    process_index: int, global_mesh: Any, *, replica_id: int = 0, replica_axis_index: int = 0
) -> bool:
    """Whether a process has devices of a replica."""
    return process_index in _processes_of(global_mesh, replica_id, replica_axis_index)


def local_replica_devices(global_mesh: Any, *, replica_axis_index: int = 0) -> Any:
    """The devices of the replica of this process. Raises ValueError if it has none in the mesh."""
    own = processes.process_index()
    number = process_replica_id(own, global_mesh, replica_axis_index=replica_axis_index)
    if number < 0:
        raise ValueError(f"process {own} has no device in the mesh {global_mesh}")
    return _devices_of(global_mesh, number, replica_axis_index)


def primary_process_in_replica(
    global_mesh: Any, *, replica_id: int = 0, replica_axis_index: int = 0
) -> int:
    """A process of a replica, the same one in all processes."""
    return next(iter(_processes_of(global_mesh, replica_id, replica_axis_index)))


def get_primary_replica_ids_and_pids(
    replica_axis_idx: int, mesh: Any, primary_replica_id: int
) -> "tuple[set[int], set[int]]":
    """The numbers of the devices of a replica, and of their processes."""
    devices = _devices_of(mesh, primary_replica_id, replica_axis_idx)
    ids = {int(device.id) for device in devices.flat}
    return ids, _processes_of(mesh, primary_replica_id, replica_axis_idx)


def process_spans_multiple_replicas(global_mesh: Any, *, replica_axis_index: int = 0) -> bool:
    """Whether a process has devices of several replicas."""
    members = _processes_of_replicas(global_mesh, replica_axis_index)
    return len(set().union(*members)) < sum(map(len, members))


def slice_count() -> int:
    """How many slices of accelerators JAX has; 1 where devices have no slices."""
    import jax

    return len({one.slice_index for one in jax.devices() if hasattr(one, "slice_index")}) or 1


# ---- memory of devices ----


def get_device_memory() -> int:
    """The bytes of memory of this process's first device; of the machine, for a CPU.

    Raises ValueError for other devices than CPU, GPU and TPU.
    """
    import jax

    device = jax.local_devices()[0]
    if device.platform == "cpu":
        return int(os.sysconf("SC_PAGE_SIZE")) * int(os.sysconf("SC_PHYS_PAGES"))
    if device.platform not in ("tpu", "gpu"):
        raise ValueError(f"{device.platform}: the memory of CPUs, GPUs and TPUs alone is known")
    limit: int = device.memory_stats()["bytes_limit"]
    return limit


def get_leaf_memory_per_device(arr: Any) -> int:
    """The bytes that an array, or a jax.ShapeDtypeStruct, has on each of its devices."""
    return int(math.prod(arr.sharding.shard_shape(arr.shape)) * arr.dtype.itemsize)


def tree_memory_per_device(tree: Any) -> int:
    """The bytes that the arrays of a tree have on each device."""
    import jax

    return sum(map(get_leaf_memory_per_device, jax.tree_util.tree_leaves(tree)))


def get_available_memory(in_tree: Any, scaling_factor: float) -> int:
    """The bytes of arrays that one broadcast may take, where the devices have those of a tree.

    scaling_factor: the share of the free memory. Raises ValueError if it is more than 1.
    """
    if scaling_factor > 1:
        raise ValueError(f"scaling_factor: expected at most 1, found {scaling_factor}")
    free = get_device_memory() - tree_memory_per_device(in_tree)
    return int(free * scaling_factor / MEMORY_FACTOR)


# ---- broadcasts ----


def _groups(arrays: Any, limit: "int | None", share: "float | None") -> "list[slice]":
    """Runs of arrays that one broadcast takes: as many as the limit allows, but one at least."""
    if limit is None:
        limit = get_available_memory(arrays, share)  # type: ignore[arg-type]
    groups: list[slice] = []
    begin = held = 0
    for at, array in enumerate(arrays):
        size = get_leaf_memory_per_device(array)
        if size > limit:
            _log.warning(
                "an array of %d bytes a device is larger than the limit of a broadcast, %d bytes; "
                "it is broadcast alone",
                size,
                limit,
            )
        if at > begin and held + size > limit:
            groups.append(slice(begin, at))
            begin, held = at, 0
        held += size
    return [*groups, slice(begin, len(arrays))] if arrays else []


def _stacked(array: Any, mesh: Any, axis: int) -> Any:
    """The description of an array with a first dimension of replicas, on all devices."""
    import jax

    sharding = array.sharding
    if not isinstance(sharding, jax.sharding.NamedSharding):
        raise ValueError(f"expected an array with a NamedSharding, found {sharding}")
    name = mesh.axis_names[axis]
    assert name not in sharding.spec, f"{sharding.spec} splits along the replicas, {name!r}"
    spec: Any = jax.sharding.PartitionSpec
    places = jax.sharding.NamedSharding(mesh, spec(name, *sharding.spec))
    shape = (mesh.devices.shape[axis], *array.shape)
    return jax.ShapeDtypeStruct(shape, array.dtype, sharding=places)  # type: ignore[no-untyped-call]


def _with_zeros(array: Any, stacked: Any, is_source: bool) -> Any:
    """The array of the source's values, and zeros on the devices of all other replicas."""
    import jax
    import numpy as np

    own = {one.device: one.data for one in array.addressable_shards} if is_source else {}
    shape = (1, *stacked.sharding.shard_shape(stacked.shape)[1:])
    parts = []
    for device in stacked.sharding.addressable_devices_indices_map(stacked.shape):
        with _only(device):
            if device in own:
                parts.append(own[device].reshape(shape))
            else:
                parts.append(jax.numpy.zeros(shape, np.dtype(stacked.dtype), device=device))
    return jax.make_array_from_single_device_arrays(stacked.shape, stacked.sharding, parts)


def _only(device: Any) -> Any:
    """A context in which arrays are made on one device, whatever mesh the program has set."""
    import jax
    import numpy as np

    mesh = jax.sharding.Mesh(np.array([device]), ("device",))
    return jax.set_mesh(mesh) if hasattr(jax, "set_mesh") else mesh


def _sums(arrays: "tuple[Any, ...]") -> "tuple[Any, ...]":
    """Adds the replicas. One function, so that JAX compiles each set of shapes once."""
    return tuple(array.sum(axis=0, dtype=array.dtype) for array in arrays)


def _broadcast_program(stacked: "tuple[Any, ...]", mesh: Any) -> Any:
    import jax

    spec: Any = jax.sharding.PartitionSpec
    places = tuple(
        jax.sharding.NamedSharding(mesh, spec(*one.sharding.spec[1:])) for one in stacked
    )
    return jax.jit(_sums, out_shardings=places)


def precompile_broadcast(
    in_tree: "tuple[Any, ...]",
    global_mesh: Any,
    replica_axis_index: int,
    memory_limit_bytes: "int | None" = None,
    memory_scaling_factor: "float | None" = _SHARE,
) -> None:
    """Compiles what broadcast_one_replica_to_all() runs for arrays that these describe.

    It may be called before the arrays are there, in another thread, say.
    """
    for group in _groups(in_tree, memory_limit_bytes, memory_scaling_factor):
        stacked = tuple(_stacked(one, global_mesh, replica_axis_index) for one in in_tree[group])
        _broadcast_program(stacked, global_mesh).lower(stacked).compile()


def broadcast_one_replica_to_all(
    in_tree: "tuple[Any, ...]",
    global_mesh: Any,
    replica_axis_index: int,
    is_source: bool,
    memory_limit_bytes: "int | None" = None,
    memory_scaling_factor: "float | None" = _SHARE,
) -> "tuple[tuple[Any, ...], int]":
    """Gives all replicas the arrays of one. All processes call it. The arrays given are deleted.

    Args:
      in_tree: the arrays, with NamedShardings of the source's devices. Processes outside of the
        source may give jax.ShapeDtypeStructs.
      global_mesh: the mesh of all replicas.
      replica_axis_index: its axis of replicas.
      is_source: whether this process has devices of the source.
      memory_limit_bytes: of the arrays of one broadcast, on each device; None: as many as the
        devices have room for.
      memory_scaling_factor: the share of their free memory that may be used.

    Returns the arrays with the same PartitionSpecs on the mesh, and the number of broadcasts.
    """
    import jax

    groups = _groups(in_tree, memory_limit_bytes, memory_scaling_factor)
    everywhere: list[Any] = []
    for group in groups:
        described = [_stacked(one, global_mesh, replica_axis_index) for one in in_tree[group]]
        add = functools.partial(_with_zeros, is_source=is_source)
        stacked = tuple(map(add, in_tree[group], described))
        for array in in_tree[group]:
            if isinstance(array, jax.Array):
                array.delete()  # before the memory is needed
        sums = _broadcast_program(stacked, global_mesh)(stacked)
        everywhere += jax.block_until_ready(sums)  # type: ignore[no-untyped-call]
    return tuple(everywhere), len(groups)
