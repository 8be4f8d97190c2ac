"""Restarts of a job: devices get new numbers, and local steps are found again."""

import json
import logging
import time
from typing import Any

from cairn.orbax._impl.base import events, multihost, processes
from cairn.orbax._impl.base.replicas import process_replica_id, replica_count
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.paths.text_files import load_json
from cairn.orbax._impl.stored.atomicity import is_path_temporary
from cairn.orbax._impl.stored.step_metadata import write_file

_log = logging.getLogger("cairn.orbax")

_DEVICES_OF_PROCESSES = "global_process_metadata.json"
_DEVICES_OF_MESH = "mesh_metadata.json"
_FIRST_CPU_OF_NEXT = 1 << 17  # CPUs of a process are numbered from a multiple of it
_FIRST_TPU_OF_NEXT = 100_000  # TPUs of a slice are numbered from a multiple of it


# ---- numbers of devices ----


def process_index_from_device_id(device_id: int) -> int:
    """The process that JAX's runtime gives a device of this number, whatever the device says."""
    import jax

    devices = jax.devices()
    own = int(jax.local_device_count())
    if devices[0].platform not in ("gpu", "tpu"):
        return device_id // (_FIRST_CPU_OF_NEXT * own)
    slices = 1 + max(getattr(device, "slice_index", 0) for device in devices)
    if devices[0].platform == "gpu" or slices == 1:
        return device_id // own
    number, within = divmod(device_id, _FIRST_TPU_OF_NEXT)
    return int((number - 1) * (jax.process_count() // slices) + within // own)


def runtime_to_distributed_ids() -> "list[int]":
    """By number of a process for JAX's runtime, its number for jax.distributed.

    Raises ValueError unless multihost.initialize_runtime_to_distributed_ids() was called.
    """
    import jax

    numbers = multihost.runtime_to_distributed_ids()
    if numbers != list(range(len(numbers))):
        return numbers
    # JAX may have given the devices the numbers of jax.distributed.
    devices = jax.devices()[:: jax.local_device_count()]
    found = {process_index_from_device_id(one.id): one.process_index for one in devices}
    missing = set(range(jax.process_count())) - set(found)
    assert not missing, f"no device belongs to the processes {sorted(missing)}"
    return [found[process] for process in range(jax.process_count())]


def consistent_restore_mesh(
    devices: "list[Any]",
    user_mesh: Any,
    previous_flattened_mesh_device_ids: "list[int]",
    previous_distributed_to_device_ids: "list[list[int]]",
    current_distributed_to_device_ids: "list[list[int]]",
) -> Any:
    """A mesh like the user's, with each device at the place that it had before a restart.

    A device may have another number after it. It is known by its process, whose number for
    jax.distributed stays, and by its place among the devices of the process.

    Args:
      devices: all devices of JAX.
      user_mesh: a mesh of the shape and the names of axes of the one before.
      previous_flattened_mesh_device_ids: the numbers of the devices of the mesh before.
      previous_distributed_to_device_ids: by process, the numbers of its devices before.
      current_distributed_to_device_ids: the same now.
    """
    import jax
    import numpy as np

    now = {
        before: after
        for process, numbers in enumerate(previous_distributed_to_device_ids)
        for before, after in zip(numbers, current_distributed_to_device_ids[process], strict=True)
    }
    by_number = {device.id: device for device in devices}
    chosen = [by_number[now[before]] for before in previous_flattened_mesh_device_ids]
    placed = np.array(chosen).reshape(user_mesh.devices.shape)
    return jax.sharding.Mesh(placed, user_mesh.axis_names)


# ---- what is stored of them ----


def process_metadata_folder(directory: Any) -> Any:
    """Where the metadata of processes are: the directory itself."""
    return directory


def read_process_metadata(directory: Any) -> "tuple[list[list[int]], list[int]]":
    """By process, the numbers of its devices; and those of the devices of the mesh.

    Raises FileNotFoundError if the directory is missing, and ValueError if its save has not ended.
    """
    folder = as_path(process_metadata_folder(directory))
    if not folder.exists():
        raise FileNotFoundError(
            f"{folder}: does not exist, so it is not known which device has which part"
        )
    if is_path_temporary(folder):
        raise ValueError(f"{folder}: its save has not ended")
    return load_json(folder / _DEVICES_OF_PROCESSES), load_json(folder / _DEVICES_OF_MESH)


async def save_process_metadata(
    directory: Any, global_mesh: Any, distributed_to_device_ids: "list[list[int]]"
) -> None:
    """Writes what read_process_metadata() reads. Each process writes to its own disk."""
    folder = as_path(process_metadata_folder(directory))
    folder.mkdir(parents=True, exist_ok=True)
    write_file(folder / _DEVICES_OF_PROCESSES, json.dumps(distributed_to_device_ids))
    numbers = [int(number) for number in global_mesh.device_ids.flat]
    write_file(folder / _DEVICES_OF_MESH, json.dumps(numbers))


def consistent_restore_mesh_from_metadata(
    global_mesh: Any,
    current_distributed_to_device_ids: "list[list[int]]",
    previous_distributed_to_device_ids: "list[list[int]]",
    previous_device_ids: "list[int]",
) -> Any:
    """The mesh of consistent_restore_mesh(), for what read_process_metadata() has returned."""
    import jax

    return consistent_restore_mesh(
        jax.devices(),
        global_mesh,
        previous_device_ids,
        previous_distributed_to_device_ids,
        current_distributed_to_device_ids,
    )


def consistent_restore_mesh_to_global_mesh(state: Any, shardings: Any) -> Any:
    """The arrays of a tree with other shardings. Those given are donated."""
    import jax

    begin = time.time()
    moved = jax.device_put(state, shardings, donate=True)
    name = "/orbax/emergency/checkpoint/read/transfer_global_shard_duration_secs"
    events.duration(name, time.time() - begin)
    return moved


# ---- steps on the disks of processes ----


def sync_global_data(local_data: "dict[str, Any]") -> "list[dict[str, Any]]":
    """The objects of JSON of all processes, in their order. All of them call it."""
    import numpy as np
    from jax.experimental import multihost_utils

    text = np.frombuffer(json.dumps(local_data).encode(), np.uint8)
    gather = multihost_utils.process_allgather
    sizes = np.asarray(gather(np.array([text.size], np.int32))).reshape(-1)
    padded = np.zeros(int(sizes.max()), np.uint8)
    padded[: text.size] = text
    texts = np.asarray(gather(padded)).reshape(len(sizes), -1)
    return [
        json.loads(one[:size].tobytes()) for one, size in zip(texts, sizes.tolist(), strict=True)
    ]


def get_per_replica_local_steps(
    local_directory: Any, *, step_name_format: Any, global_mesh: Any, replica_axis_index: int
) -> "dict[int, set[int]]":
    """By replica, the steps that each of its processes has on its disk. All processes call it.

    A replica whose processes have devices of others, too, has none, as in Orbax.
    """
    import jax

    own = sorted({one.step for one in step_name_format.find_all(as_path(local_directory))})
    _log.info("%s has the steps %s", local_directory, own)
    axis = {"replica_axis_index": replica_axis_index}
    devices = global_mesh.devices.size // replica_count(global_mesh, **axis)
    members = devices // jax.local_device_count()
    found: dict[int, list[set[int]]] = {}
    for one in sync_global_data({"process": processes.process_index(), "steps": own}):
        replica = process_replica_id(one["process"], global_mesh, **axis)
        found.setdefault(replica, []).append(set(one["steps"]))
    return {
        replica: set.intersection(*steps) if len(steps) == members else set()
        for replica, steps in found.items()
    }
