"""The replicator's manager and its options, under their second name."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax.experimental.emergency.replicator_checkpoint_manager import (
    ReplicatorCheckpointManager,
    ReplicatorCheckpointManagerOptions,
)

__getattr__ = _hints(__name__)

__all__ = ["ReplicatorCheckpointManager", "ReplicatorCheckpointManagerOptions"]
