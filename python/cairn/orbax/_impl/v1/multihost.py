"""Other processes. cairn.orbax saves and loads in one."""

from typing import Any

from cairn.orbax._impl.base import processes


def is_pathways_backend() -> bool:
    """False: Pathways is not available."""
    return False


async def sync_global_processes(key: str, **options: Any) -> None:
    """Waits for the other processes. Raises NotImplementedError if there are any."""
    processes.sync_global_processes(key, **options)
