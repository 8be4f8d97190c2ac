"""CheckpointManager under the name of Orbax's module."""

from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax._impl.steps.manager import CheckpointManager, StepAlreadyExistsError
from cairn.orbax._impl.steps.manager_options import CheckpointManagerOptions
from cairn.orbax.options import AsyncOptions, FileOptions, MultiprocessingOptions

__getattr__ = _hints(__name__)

__all__ = [
    "AsyncOptions",
    "CheckpointManager",
    "CheckpointManagerOptions",
    "FileOptions",
    "MultiprocessingOptions",
    "StepAlreadyExistsError",
]
