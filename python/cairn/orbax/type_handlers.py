"""Arguments and handlers of leaves; those of the standard types are native."""

from typing import Any

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.leaves.leaf_args import (
    PLACEHOLDER,
    ArrayRestoreArgs,
    RestoreArgs,
    SaveArgs,
    SingleReplicaArrayRestoreArgs,
    is_placeholder,
)
from cairn.orbax._impl.leaves.tree_metadata import (
    ArrayMetadata,
    Metadata,
    ScalarMetadata,
    StorageMetadata,
    StringMetadata,
)
from cairn.orbax._impl.stored.stored_tree import is_ocdbt_checkpoint
from cairn.orbax._impl.stored.zarr_metadata import (
    Compression,
    Zarr2Metadata,
    Zarr3Metadata,
    ZarrMetadata,
)
from cairn.orbax._impl.types.byte_limits import (
    ByteLimiter,
    LimitInFlightBytes,
    UnlimitedInFlightBytes,
    get_byte_limiter,
    reserved_bytes,
)
from cairn.orbax._impl.types.empty_values import (
    RESTORE_TYPE_DICT,
    RESTORE_TYPE_LIST,
    RESTORE_TYPE_NAMED_TUPLE,
    RESTORE_TYPE_NONE,
    RESTORE_TYPE_TUPLE,
    RESTORE_TYPE_UNKNOWN,
    OrbaxEmptyNamedTuple,
    PyTreeMetadataOptions,
    get_empty_value_from_typestr,
    get_empty_value_typestr,
    is_empty_container,
    is_empty_typestr,
    is_supported_empty_value,
    override_empty_value_typestr,
)
from cairn.orbax._impl.types.kvstore_specs import (
    PROCESS_SUBDIR_PREFIX,
    REPLICA_SUBDIR_SUFFIX,
    get_ts_context,
)
from cairn.orbax._impl.types.leaf_checks import (
    JAX_ARRAY_TYPE_STR,
    PLACEHOLDER_TYPESTR,
    InvalidShardingError,
    any_jax_array_param_info,
    check_array_values,
    default_restore_type,
    get_param_typestr,
    get_process_index_for_subdir,
    represents_jax_array,
)
from cairn.orbax._impl.types.merge import merge_ocdbt_per_process_files
from cairn.orbax._impl.types.standard_types import (
    ArrayHandler,
    NumpyHandler,
    PlaceholderHandler,
    ScalarHandler,
    SingleReplicaArrayHandler,
    StringHandler,
)
from cairn.orbax._impl.types.status import (
    DefaultSerializationStatusCallback,
    IoDirection,
    IsPrioritizedKeyFn,
    SerializationStatusCallback,
    TransferPriority,
)
from cairn.orbax._impl.types.tensorstore_specs import (
    get_cast_tspec_deserialize,
    get_cast_tspec_serialize,
    get_json_tspec_read,
    get_json_tspec_write,
)
from cairn.orbax._impl.types.type_handler import ParamInfo, TypeHandler, check_input_arguments
from cairn.orbax._impl.types.type_registry import (
    TypeHandlerRegistry,
    create_type_handler_registry,
    get_type_handler,
    global_registry,
    has_type_handler,
    is_supported_type,
    register_standard_handlers_with_options,
    register_type_handler,
    supported_types,
)

_hint = _hints(__name__)


def __getattr__(name: str) -> Any:
    """Makes the members that need JAX or NumPy at their first use."""
    if name == "GLOBAL_TYPE_HANDLER_REGISTRY":
        return global_registry()
    if name == "Scalar":
        import numpy as np

        return int | float | np.number
    return _hint(name)


__all__ = [
    "JAX_ARRAY_TYPE_STR",
    "PLACEHOLDER",
    "PLACEHOLDER_TYPESTR",
    "PROCESS_SUBDIR_PREFIX",
    "REPLICA_SUBDIR_SUFFIX",
    "RESTORE_TYPE_DICT",
    "RESTORE_TYPE_LIST",
    "RESTORE_TYPE_NAMED_TUPLE",
    "RESTORE_TYPE_NONE",
    "RESTORE_TYPE_TUPLE",
    "RESTORE_TYPE_UNKNOWN",
    "ArrayHandler",
    "ArrayMetadata",
    "ArrayRestoreArgs",
    "ByteLimiter",
    "Compression",
    "DefaultSerializationStatusCallback",
    "InvalidShardingError",
    "IoDirection",
    "IsPrioritizedKeyFn",
    "LimitInFlightBytes",
    "Metadata",
    "NumpyHandler",
    "OrbaxEmptyNamedTuple",
    "ParamInfo",
    "PlaceholderHandler",
    "PyTreeMetadataOptions",
    "RestoreArgs",
    "SaveArgs",
    "ScalarHandler",
    "ScalarMetadata",
    "SerializationStatusCallback",
    "SingleReplicaArrayHandler",
    "SingleReplicaArrayRestoreArgs",
    "StorageMetadata",
    "StringHandler",
    "StringMetadata",
    "TransferPriority",
    "TypeHandler",
    "TypeHandlerRegistry",
    "UnlimitedInFlightBytes",
    "Zarr2Metadata",
    "Zarr3Metadata",
    "ZarrMetadata",
    "any_jax_array_param_info",
    "check_array_values",
    "check_input_arguments",
    "create_type_handler_registry",
    "default_restore_type",
    "get_byte_limiter",
    "get_cast_tspec_deserialize",
    "get_cast_tspec_serialize",
    "get_empty_value_from_typestr",
    "get_empty_value_typestr",
    "get_json_tspec_read",
    "get_json_tspec_write",
    "get_param_typestr",
    "get_process_index_for_subdir",
    "get_ts_context",
    "get_type_handler",
    "has_type_handler",
    "is_empty_container",
    "is_empty_typestr",
    "is_ocdbt_checkpoint",
    "is_placeholder",
    "is_supported_empty_value",
    "is_supported_type",
    "merge_ocdbt_per_process_files",
    "override_empty_value_typestr",
    "register_standard_handlers_with_options",
    "register_type_handler",
    "represents_jax_array",
    "reserved_bytes",
    "supported_types",
]
