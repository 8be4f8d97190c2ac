"""Meshes of replicas for tests, and arrays of one replica."""

from typing import Any

from cairn.orbax._impl.base.replicas import local_replica_devices, replica_count, replica_devices


def get_fake_global_mesh_for_slices(
    slice_processes: "list[set[int]]", replica_axis_index: int = 0
) -> Any:
    """A mesh with the axes "replica" and "data", in this order or, for an index of 1, the other.

    slice_processes: by replica, the processes whose devices it has. Raises ValueError unless each
    replica has as many devices, and each process is in one.
    """
    import jax
    import numpy as np

    if replica_axis_index not in (0, 1):
        raise AssertionError(f"replica_axis_index: expected 0 or 1, found {replica_axis_index}")
    replicas = [
        [one for one in jax.devices() if one.process_index in members]
        for members in slice_processes
    ]
    if len({len(devices) for devices in replicas}) > 1:
        raise ValueError("All slices must have the same number of devices.")
    if len(set().union(*slice_processes)) != jax.process_count():
        raise ValueError("All processes must be accounted for.")
    devices = np.asarray(replicas)
    if replica_axis_index == 1:
        return jax.sharding.Mesh(devices.T, ("data", "replica"))
    return jax.sharding.Mesh(devices, ("replica", "data"))


def swap_slices_in_mesh(mesh: Any, *, replica_axis_index: int = 0) -> Any:
    """The mesh with its replicas in the reverse order."""
    import jax
    import numpy as np

    numbers = reversed(range(replica_count(mesh, replica_axis_index=replica_axis_index)))
    swapped = [
        replica_devices(mesh, replica_id=number, replica_axis_index=replica_axis_index)
        for number in numbers
    ]
    return jax.sharding.Mesh(np.stack(swapped, axis=replica_axis_index), mesh.axis_names)


def select_single_replica(arrays: Any, global_mesh: Any) -> Any:
    """The arrays of a tree on the devices of this process's replica alone; the axis of replicas is
    the first one.

    The arrays have NamedShardings that do not split along it, and all that this process has of them
    is in its replica.
    """
    import jax

    mesh = jax.sharding.Mesh(local_replica_devices(global_mesh), global_mesh.axis_names[1:])

    def select(array: Any) -> Any:
        sharding = jax.sharding.NamedSharding(mesh, array.sharding.spec)
        parts = [shard.data for shard in array.addressable_shards]
        return jax.make_array_from_single_device_arrays(array.shape, sharding, parts)

    return jax.tree_util.tree_map(select, arrays)
