"""Replicas of a job: which devices and processes are in which, and broadcasts between them.

Orbax's public module of this name is still empty: these are the names of its internal one.
"""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.base.replicas import (
    MEMORY_FACTOR,
    broadcast_one_replica_to_all,
    get_available_memory,
    get_device_memory,
    get_leaf_memory_per_device,
    get_primary_replica_ids_and_pids,
    in_replica,
    local_replica_devices,
    precompile_broadcast,
    primary_process_in_replica,
    process_replica_id,
    process_spans_multiple_replicas,
    replica_count,
    replica_devices,
    slice_count,
    tree_memory_per_device,
)

__getattr__ = _hints(__name__)

__all__ = [
    "MEMORY_FACTOR",
    "broadcast_one_replica_to_all",
    "get_available_memory",
    "get_device_memory",
    "get_leaf_memory_per_device",
    "get_primary_replica_ids_and_pids",
    "in_replica",
    "local_replica_devices",
    "precompile_broadcast",
    "primary_process_in_replica",
    "process_replica_id",
    "process_spans_multiple_replicas",
    "replica_count",
    "replica_devices",
    "slice_count",
    "tree_memory_per_device",
]
