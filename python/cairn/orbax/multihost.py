"""Other processes: those of jax.distributed."""

import sys
from typing import Any

from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax._impl.processes import (
    Group,
    is_primary_host,
    process_count,
    process_index,
    reached_preemption,
)

__getattr__ = _hints(
    __name__,
    {
        "BarrierSyncFn": "cairn.orbax has its own barriers",
        "get_barrier_sync_fn": "call sync_global_processes",
        "unique_barrier_key": "sync_global_processes makes its names unique by itself",
        "coordination_timeout": "processes wait 300 seconds for each other",
        "global_max": "use jax.experimental.multihost_utils.process_allgather",
    },
    "the processes are numbered as JAX numbers them; Pathways is not available",
)

_group = Group()


def sync_global_processes(name: str, **options: Any) -> None:
    """Waits for the other processes. `options` are of barriers that Orbax may use instead."""
    _group.step(f"sync: {name}", lambda: None)


def broadcast_one_to_all(in_tree: Any, is_source: "bool | None" = None) -> Any:
    """The tree of the first process, or of the one with is_source, as arrays of NumPy.

    All processes call it.
    """
    from jax.experimental import multihost_utils

    return multihost_utils.broadcast_one_to_all(in_tree, is_source)


def is_jax_distributed_client_initialized() -> bool:
    """Whether jax.distributed is initialized."""
    jax = sys.modules.get("jax")
    return jax is not None and bool(jax.distributed.is_initialized())


def process_index_from_device(device: Any) -> int:
    """The process that a device belongs to."""
    return int(device.process_index)


def unique_processes_from_devices(device_array: Any) -> "set[int]":
    """The processes that the devices of an array of NumPy belong to."""
    return {process_index_from_device(device) for device in device_array.flat}


def should_skip_process_sync(processes: "set[int] | None" = None) -> bool:
    """Whether there is nobody to wait for: one process, or `processes` is this one alone."""
    return process_count() == 1 or processes == {process_index()}


def _is_not_pathways() -> bool:
    """False: Pathways is not available."""
    return False


is_pathways_backend = _is_not_pathways
is_proxy_pathways_backend = _is_not_pathways
is_native_pathways_backend = _is_not_pathways
is_cloud_pathways_persistence_enabled = _is_not_pathways

__all__ = [
    "broadcast_one_to_all",
    "is_cloud_pathways_persistence_enabled",
    "is_jax_distributed_client_initialized",
    "is_native_pathways_backend",
    "is_pathways_backend",
    "is_primary_host",
    "is_proxy_pathways_backend",
    "process_count",
    "process_index",
    "process_index_from_device",
    "reached_preemption",
    "should_skip_process_sync",
    "sync_global_processes",
    "unique_processes_from_devices",
]
