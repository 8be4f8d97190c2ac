"""The devices of a job that has started again: a mesh with each at its old place."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.handlers.restarts import (
    consistent_restore_mesh,
    process_index_from_device_id,
    runtime_to_distributed_ids,
)

_FLAG = "devices are always known by the processes' numbers for jax.distributed, Orbax's default"
__getattr__ = _hints(__name__, {"EXPERIMENTAL_USE_DISTRIBUTED_ID_FOR_MESH_CONSISTENCY": _FLAG})

__all__ = [
    "consistent_restore_mesh",
    "process_index_from_device_id",
    "runtime_to_distributed_ids",
]
