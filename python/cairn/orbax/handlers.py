"""Handlers, their registries and their arguments."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.handlers.array_handler import (
    ArrayCheckpointHandler,
    ArraySaveArgs,
    JaxRandomKeyCheckpointHandler,
    JaxRandomKeyRestoreArgs,
    JaxRandomKeySaveArgs,
    NumpyRandomKeyCheckpointHandler,
    NumpyRandomKeyRestoreArgs,
    NumpyRandomKeySaveArgs,
)
from cairn.orbax._impl.handlers.array_handler import ArrayRestoreItemArgs as ArrayRestoreArgs
from cairn.orbax._impl.handlers.base_pytree_handler import (
    BasePyTreeCheckpointHandler,
    BasePyTreeRestoreArgs,
    BasePyTreeSaveArgs,
)
from cairn.orbax._impl.handlers.composite_handler import CompositeArgs, CompositeCheckpointHandler
from cairn.orbax._impl.handlers.composite_handler import CompositeArgs as CompositeResults
from cairn.orbax._impl.handlers.handler import AsyncCheckpointHandler, CheckpointHandler
from cairn.orbax._impl.handlers.json_handler import (
    JsonCheckpointHandler,
    JsonRestoreArgs,
    JsonSaveArgs,
    ProtoCheckpointHandler,
    ProtoRestoreArgs,
    ProtoSaveArgs,
)
from cairn.orbax._impl.handlers.pytree_handler import (
    PyTreeCheckpointHandler,
    PyTreeRestoreArgs,
    PyTreeSaveArgs,
)
from cairn.orbax._impl.handlers.registry import (
    CheckpointHandlerRegistry,
    DefaultCheckpointHandlerRegistry,
    create_default_handler_registry,
)
from cairn.orbax._impl.handlers.standard_handler import (
    StandardCheckpointHandler,
    StandardRestoreArgs,
    StandardSaveArgs,
)

__getattr__ = _hints(__name__)

__all__ = [
    "ArrayCheckpointHandler",
    "ArrayRestoreArgs",
    "ArraySaveArgs",
    "AsyncCheckpointHandler",
    "BasePyTreeCheckpointHandler",
    "BasePyTreeRestoreArgs",
    "BasePyTreeSaveArgs",
    "CheckpointHandler",
    "CheckpointHandlerRegistry",
    "CompositeArgs",
    "CompositeCheckpointHandler",
    "CompositeResults",
    "DefaultCheckpointHandlerRegistry",
    "JaxRandomKeyCheckpointHandler",
    "JaxRandomKeyRestoreArgs",
    "JaxRandomKeySaveArgs",
    "JsonCheckpointHandler",
    "JsonRestoreArgs",
    "JsonSaveArgs",
    "NumpyRandomKeyCheckpointHandler",
    "NumpyRandomKeyRestoreArgs",
    "NumpyRandomKeySaveArgs",
    "ProtoCheckpointHandler",
    "ProtoRestoreArgs",
    "ProtoSaveArgs",
    "PyTreeCheckpointHandler",
    "PyTreeRestoreArgs",
    "PyTreeSaveArgs",
    "StandardCheckpointHandler",
    "StandardRestoreArgs",
    "StandardSaveArgs",
    "create_default_handler_registry",
]
