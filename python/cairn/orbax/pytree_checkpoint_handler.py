"""The names of Orbax's internal modules of the handlers of trees; older programs import them."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.handlers.args import CheckpointArgs, register_with_handler
from cairn.orbax._impl.handlers.base_pytree_handler import (
    BasePyTreeCheckpointHandler,
    BasePyTreeRestoreArgs,
    BasePyTreeSaveArgs,
    PartialSaveError,
    PartialSaveReplacementError,
)
from cairn.orbax._impl.handlers.pytree_handler import (
    DEFAULT_CONCURRENT_GB,
    LegacyTransformFn,
    PyTreeCheckpointHandler,
    PyTreeRestoreArgs,
    PyTreeSaveArgs,
)
from cairn.orbax._impl.leaves.leaf_args import PLACEHOLDER, ArrayRestoreArgs, RestoreArgs, SaveArgs
from cairn.orbax._impl.paths.checkpoint_paths import TEMPORARY_MARK as TMP_DIR_SUFFIX
from cairn.orbax._impl.paths.checkpoint_paths import TREE_METADATA_FILE as PYTREE_METADATA_FILE
from cairn.orbax._impl.types.byte_limits import LimitInFlightBytes
from cairn.orbax._impl.types.empty_values import PyTreeMetadataOptions
from cairn.orbax._impl.types.type_handler import ParamInfo, TypeHandler
from cairn.orbax._impl.types.type_registry import TypeHandlerRegistry
from cairn.orbax.aggregate_handlers import AggregateHandler, MsgpackHandler
from cairn.orbax.transform_utils import RestoreTransform, Transform
from cairn.orbax.tree import PyTree, get_param_names

TupleKey = tuple[str, ...]

_KNOWN = dict.fromkeys(
    ("BatchRequest", "batched_serialization_requests"),
    "the native part writes all leaves of a tree together",
)

__getattr__ = _hints(__name__, _KNOWN)

__all__ = [
    "DEFAULT_CONCURRENT_GB",
    "PLACEHOLDER",
    "PYTREE_METADATA_FILE",
    "TMP_DIR_SUFFIX",
    "AggregateHandler",
    "ArrayRestoreArgs",
    "BasePyTreeCheckpointHandler",
    "BasePyTreeRestoreArgs",
    "BasePyTreeSaveArgs",
    "CheckpointArgs",
    "LegacyTransformFn",
    "LimitInFlightBytes",
    "MsgpackHandler",
    "ParamInfo",
    "PartialSaveError",
    "PartialSaveReplacementError",
    "PyTree",
    "PyTreeCheckpointHandler",
    "PyTreeMetadataOptions",
    "PyTreeRestoreArgs",
    "PyTreeSaveArgs",
    "RestoreArgs",
    "RestoreTransform",
    "SaveArgs",
    "Transform",
    "TupleKey",
    "TypeHandler",
    "TypeHandlerRegistry",
    "get_param_names",
    "register_with_handler",
]
