"""The steps that are on the local disks of replicas."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.handlers.restarts import get_per_replica_local_steps, sync_global_data

__getattr__ = _hints(__name__)

__all__ = ["get_per_replica_local_steps", "sync_global_data"]
