"""The manager that fetches checkpoints from other processes. It is not available."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax.experimental.emergency._unavailable import UnavailableManager

__getattr__ = _hints(__name__)


class CheckpointManager(UnavailableManager):
    """Raises NotImplementedError: it is not available."""


__all__ = ["CheckpointManager"]
