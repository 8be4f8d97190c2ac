"""Other processes. cairn.orbax saves and loads in one."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.base.processes import is_primary_host, process_index
from cairn.orbax._impl.v1.multihost import is_pathways_backend, sync_global_processes
from cairn.orbax.multihost import process_count

__getattr__ = _hints(__name__)

__all__ = [
    "is_pathways_backend",
    "is_primary_host",
    "process_count",
    "process_index",
    "sync_global_processes",
]
