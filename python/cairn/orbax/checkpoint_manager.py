"""CheckpointManager under the name of Orbax's module, and names that it has from others."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.steps.abstract_manager import AbstractCheckpointManager
from cairn.orbax._impl.steps.infos import CheckpointInfo
from cairn.orbax._impl.steps.manager import CheckpointManager, StepAlreadyExistsError
from cairn.orbax._impl.steps.manager_options import CheckpointManagerOptions
from cairn.orbax._impl.steps.manager_setup import (
    determine_default_item_mode_from_args,
    is_async_checkpointer,
)
from cairn.orbax._impl.steps.save_decision_policy import ShouldSaveFnPolicy
from cairn.orbax._impl.stored.step_metadata import (
    deserialize_root_metadata,
    serialize_root_metadata,
)
from cairn.orbax.checkpoint_args import CheckpointArgs
from cairn.orbax.checkpointers import AbstractCheckpointer, AsyncCheckpointer, Checkpointer
from cairn.orbax.handlers import (
    CheckpointHandler,
    CheckpointHandlerRegistry,
    CompositeCheckpointHandler,
    JsonCheckpointHandler,
    ProtoCheckpointHandler,
)
from cairn.orbax.metadata import RootMetadata, StepMetadata
from cairn.orbax.options import AsyncOptions, FileOptions, MultiprocessingOptions

DEFAULT_ITEM_NAME = "default"
METRIC_ITEM_NAME = "metrics"
METADATA_ITEM_NAME = "metadata"  # a directory beside the steps
RESERVED_ITEM_NAMES: "list[str]" = []  # as in Orbax, which reserves none any more

# In annotations, as in Orbax.
PyTree: TypeAlias = Any
ItemMetadata: TypeAlias = Any
SaveParams: TypeAlias = Mapping[str, Any]
RestoreParams: TypeAlias = Mapping[str, Any]
CheckpointDirs: TypeAlias = tuple[str, str]
CheckpointersDict: TypeAlias = Mapping[str, AbstractCheckpointer]
CheckpointHandlersDict: TypeAlias = Mapping[str, CheckpointHandler]

# Programs use it to decide by a function alone: should_save_fn also saves before a preemption.
_ShouldSaveFnPolicy = ShouldSaveFnPolicy

__getattr__ = _hints(__name__)


__all__ = [
    "DEFAULT_ITEM_NAME",
    "METADATA_ITEM_NAME",
    "METRIC_ITEM_NAME",
    "RESERVED_ITEM_NAMES",
    "AbstractCheckpointManager",
    "AbstractCheckpointer",
    "AsyncCheckpointer",
    "AsyncOptions",
    "CheckpointArgs",
    "CheckpointHandler",
    "CheckpointHandlerRegistry",
    "CheckpointInfo",
    "CheckpointManager",
    "CheckpointManagerOptions",
    "Checkpointer",
    "CompositeCheckpointHandler",
    "FileOptions",
    "JsonCheckpointHandler",
    "MultiprocessingOptions",
    "ProtoCheckpointHandler",
    "RootMetadata",
    "StepAlreadyExistsError",
    "StepMetadata",
    "deserialize_root_metadata",
    "determine_default_item_mode_from_args",
    "is_async_checkpointer",
    "serialize_root_metadata",
]
