"""Handlers of checkpointables, and their registration."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.v1.handlers.file_handlers import JsonHandler, ProtoHandler
from cairn.orbax._impl.v1.handlers.global_registry import (
    global_registry,
    local_registry,
    register_handler,
)
from cairn.orbax._impl.v1.handlers.handler_types import (
    AbstractCheckpointable,
    Checkpointable,
    CheckpointableHandler,
    StatefulCheckpointable,
)
from cairn.orbax._impl.v1.handlers.pytree_handler import PyTreeHandler
from cairn.orbax._impl.v1.handlers.registry import CheckpointableHandlerRegistry

__getattr__ = _hints(__name__)

__all__ = [
    "AbstractCheckpointable",
    "Checkpointable",
    "CheckpointableHandler",
    "CheckpointableHandlerRegistry",
    "JsonHandler",
    "ProtoHandler",
    "PyTreeHandler",
    "StatefulCheckpointable",
    "global_registry",
    "local_registry",
    "register_handler",
]
