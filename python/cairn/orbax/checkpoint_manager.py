"""CheckpointManager under the name of Orbax's module."""

from cairn.orbax._impl.manager import CheckpointManager, StepAlreadyExistsError
from cairn.orbax._impl.manager_options import CheckpointManagerOptions
from cairn.orbax.options import AsyncOptions, FileOptions, MultiprocessingOptions

__all__ = [
    "AsyncOptions",
    "CheckpointManager",
    "CheckpointManagerOptions",
    "FileOptions",
    "MultiprocessingOptions",
    "StepAlreadyExistsError",
]
