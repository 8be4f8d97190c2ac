"""Handlers of checkpointables, and their registration."""

from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax.v1._impl.handlers.file_handlers import JsonHandler, ProtoHandler
from cairn.orbax.v1._impl.handlers.handler_types import (
    AbstractCheckpointable,
    Checkpointable,
    CheckpointableHandler,
    StatefulCheckpointable,
)
from cairn.orbax.v1._impl.handlers.pytree_handler import PyTreeHandler
from cairn.orbax.v1._impl.handlers.registry import (
    CheckpointableHandlerRegistry,
    global_registry,
    local_registry,
    register_handler,
)

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
