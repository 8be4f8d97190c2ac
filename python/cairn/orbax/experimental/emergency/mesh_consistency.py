"""Which device had which part of the arrays, so that it gets it again after a restart."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.handlers.restarts import (
    consistent_restore_mesh_from_metadata,
    consistent_restore_mesh_to_global_mesh,
    process_metadata_folder,
    read_process_metadata,
    save_process_metadata,
)

__getattr__ = _hints(__name__)

__all__ = [
    "consistent_restore_mesh_from_metadata",
    "consistent_restore_mesh_to_global_mesh",
    "process_metadata_folder",
    "read_process_metadata",
    "save_process_metadata",
]
