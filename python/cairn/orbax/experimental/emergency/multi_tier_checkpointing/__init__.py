"""Names of Orbax's multi-tier checkpointing, which needs a replicator service. Not available."""

from cairn.orbax._impl.base.missing import hints as _hints

__getattr__ = _hints(__name__, general="cairn.orbax.CheckpointManager saves to a directory of all")
