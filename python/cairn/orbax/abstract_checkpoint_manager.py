"""AbstractCheckpointManager: what all managers of steps have."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.steps.abstract_manager import AbstractCheckpointManager

__getattr__ = _hints(__name__)

__all__ = ["AbstractCheckpointManager"]
