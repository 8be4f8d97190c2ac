"""Arguments and handlers of leaves; those of the standard types are native."""

from collections.abc import Mapping
from typing import Any

from cairn.orbax._impl.leaves.leaf_args import (
    PLACEHOLDER,
    ArrayRestoreArgs,
    RestoreArgs,
    SaveArgs,
    SingleReplicaArrayRestoreArgs,
    is_placeholder,
)
from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax._impl.paths import OCDBT_MANIFEST, as_path
from cairn.orbax._impl.types.standard_types import (
    ArrayHandler,
    NumpyHandler,
    ScalarHandler,
    SingleReplicaArrayHandler,
    StringHandler,
)
from cairn.orbax._impl.types.tensorstore_specs import (
    get_cast_tspec_deserialize,
    get_cast_tspec_serialize,
    get_json_tspec_read,
    get_json_tspec_write,
    get_ts_context,
)
from cairn.orbax._impl.types.type_handler import ParamInfo, TypeHandler, check_input_arguments
from cairn.orbax._impl.types.type_registry import (
    TypeHandlerRegistry,
    create_type_handler_registry,
    default_types,
    get_type_handler,
    has_type_handler,
    register_standard_handlers_with_options,
    register_type_handler,
)

_MISSING = {
    "merge_ocdbt_per_process_files": "the processes of a save merge their databases themselves",
}


__getattr__ = _hints(__name__, _MISSING)


def is_ocdbt_checkpoint(path: Any) -> bool:
    """Whether the arrays of a directory are in a database."""
    return bool((as_path(path) / OCDBT_MANIFEST).exists())


def supported_types() -> "list[Any]":
    """The types of leaves."""
    return [kind for kind, _ in default_types()]


def is_supported_empty_value(value: Any, pytree_metadata_options: Any = None) -> bool:
    """Whether a value is None, or an empty container; a named tuple only with rich types."""
    rich = bool(getattr(pytree_metadata_options, "support_rich_types", False))
    if value is None:
        return True
    is_container = isinstance(value, (tuple, list, Mapping))
    return is_container and not value and (rich or not hasattr(value, "_fields"))


def is_supported_type(value: Any, pytree_metadata_options: Any = None) -> bool:
    """Whether a value is stored without a handler of the caller."""
    import jax
    import numpy as np

    kinds = (str, int, float, bytes, np.number, np.ndarray, jax.Array)
    return isinstance(value, kinds) or is_supported_empty_value(value, pytree_metadata_options)


__all__ = [
    "PLACEHOLDER",
    "ArrayHandler",
    "ArrayRestoreArgs",
    "NumpyHandler",
    "ParamInfo",
    "RestoreArgs",
    "SaveArgs",
    "ScalarHandler",
    "SingleReplicaArrayHandler",
    "SingleReplicaArrayRestoreArgs",
    "StringHandler",
    "TypeHandler",
    "TypeHandlerRegistry",
    "check_input_arguments",
    "create_type_handler_registry",
    "get_cast_tspec_deserialize",
    "get_cast_tspec_serialize",
    "get_json_tspec_read",
    "get_json_tspec_write",
    "get_ts_context",
    "get_type_handler",
    "has_type_handler",
    "is_ocdbt_checkpoint",
    "is_placeholder",
    "is_supported_empty_value",
    "is_supported_type",
    "register_standard_handlers_with_options",
    "register_type_handler",
    "supported_types",
]
