"""Other processes. cairn.orbax saves and loads in one."""

from typing import Any

from cairn.orbax import multihost as _multihost
from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax._impl.processes import is_primary_host, process_index
from cairn.orbax.multihost import process_count

__getattr__ = _hints(__name__)


def is_pathways_backend() -> bool:
    """False: Pathways is not available."""
    return False


async def sync_global_processes(key: str, **options: Any) -> None:
    """Waits for the other processes. Raises NotImplementedError if there are any."""
    _multihost.sync_global_processes(key, **options)


__all__ = [
    "is_pathways_backend",
    "is_primary_host",
    "process_count",
    "process_index",
    "sync_global_processes",
]
