"""CheckpointManager under the name of Orbax's module, and names that it has from others."""

from typing import Any

from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax._impl.steps.manager import CheckpointManager, StepAlreadyExistsError
from cairn.orbax._impl.steps.manager_options import CheckpointManagerOptions
from cairn.orbax.checkpoint_args import CheckpointArgs
from cairn.orbax.checkpointers import AbstractCheckpointer, AsyncCheckpointer, Checkpointer
from cairn.orbax.handlers import CheckpointHandler, CheckpointHandlerRegistry
from cairn.orbax.metadata import RootMetadata, StepMetadata
from cairn.orbax.options import AsyncOptions, FileOptions, MultiprocessingOptions

DEFAULT_ITEM_NAME = "default"
METRIC_ITEM_NAME = "metrics"

__getattr__ = _hints(__name__)


def is_async_checkpointer(checkpointer: Any) -> bool:
    """Whether a checkpointer saves in the background."""
    return isinstance(checkpointer, AsyncCheckpointer)


__all__ = [
    "DEFAULT_ITEM_NAME",
    "METRIC_ITEM_NAME",
    "AbstractCheckpointer",
    "AsyncCheckpointer",
    "AsyncOptions",
    "CheckpointArgs",
    "CheckpointHandler",
    "CheckpointHandlerRegistry",
    "CheckpointManager",
    "CheckpointManagerOptions",
    "Checkpointer",
    "FileOptions",
    "MultiprocessingOptions",
    "RootMetadata",
    "StepAlreadyExistsError",
    "StepMetadata",
    "is_async_checkpointer",
]
