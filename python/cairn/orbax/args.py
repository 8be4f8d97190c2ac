"""Arguments of saves and restores: args.StandardSave, args.Composite, ..."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.handlers.args import (
    CheckpointArgs,
    get_registered_args_cls,
    get_registered_handler_cls,
    has_registered_args,
    register_with_handler,
)
from cairn.orbax._impl.handlers.array_handler import ArrayRestoreItemArgs as ArrayRestore
from cairn.orbax._impl.handlers.array_handler import ArraySaveArgs as ArraySave
from cairn.orbax._impl.handlers.array_handler import JaxRandomKeyRestoreArgs as JaxRandomKeyRestore
from cairn.orbax._impl.handlers.array_handler import JaxRandomKeySaveArgs as JaxRandomKeySave
from cairn.orbax._impl.handlers.array_handler import (
    NumpyRandomKeyRestoreArgs as NumpyRandomKeyRestore,
)
from cairn.orbax._impl.handlers.array_handler import NumpyRandomKeySaveArgs as NumpyRandomKeySave
from cairn.orbax._impl.handlers.composite_handler import CompositeArgs as Composite
from cairn.orbax._impl.handlers.json_handler import JsonRestoreArgs as JsonRestore
from cairn.orbax._impl.handlers.json_handler import JsonSaveArgs as JsonSave
from cairn.orbax._impl.handlers.json_handler import ProtoRestoreArgs as ProtoRestore
from cairn.orbax._impl.handlers.json_handler import ProtoSaveArgs as ProtoSave
from cairn.orbax._impl.handlers.pytree_handler import PyTreeRestoreArgs as PyTreeRestore
from cairn.orbax._impl.handlers.pytree_handler import PyTreeSaveArgs as PyTreeSave
from cairn.orbax._impl.handlers.standard_handler import StandardRestoreArgs as StandardRestore
from cairn.orbax._impl.handlers.standard_handler import StandardSaveArgs as StandardSave

__getattr__ = _hints(__name__)

__all__ = [
    "ArrayRestore",
    "ArraySave",
    "CheckpointArgs",
    "Composite",
    "JaxRandomKeyRestore",
    "JaxRandomKeySave",
    "JsonRestore",
    "JsonSave",
    "NumpyRandomKeyRestore",
    "NumpyRandomKeySave",
    "ProtoRestore",
    "ProtoSave",
    "PyTreeRestore",
    "PyTreeSave",
    "StandardRestore",
    "StandardSave",
    "get_registered_args_cls",
    "get_registered_handler_cls",
    "has_registered_args",
    "register_with_handler",
]
