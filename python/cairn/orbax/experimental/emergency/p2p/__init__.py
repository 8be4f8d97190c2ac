"""Names of Orbax's manager that fetches checkpoints from other processes. It is not available."""

from cairn.orbax._impl.base.missing import hints as _hints

__getattr__ = _hints(__name__, general="cairn.orbax.CheckpointManager saves to a directory of all")
