"""Arguments of leaves. Their handlers are native; your own types need a CheckpointHandler."""

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

_MISSING = {
    name: "leaves are saved by Cairn's native code; write a CheckpointHandler for types of your own"
    for name in (
        "ArrayHandler",
        "NumpyHandler",
        "ParamInfo",
        "ScalarHandler",
        "SingleReplicaArrayHandler",
        "StringHandler",
        "TypeHandler",
        "TypeHandlerRegistry",
        "create_type_handler_registry",
        "get_type_handler",
        "has_type_handler",
        "register_standard_handlers_with_options",
        "register_type_handler",
    )
}


__getattr__ = _hints(__name__, _MISSING)


def is_ocdbt_checkpoint(path: Any) -> bool:
    """Whether the arrays of a directory are in a database."""
    from cairn.orbax._impl.paths import as_path

    return bool((as_path(path) / "manifest.ocdbt").exists())


def supported_types() -> "list[Any]":
    """The types of leaves."""
    import jax
    import numpy as np

    return [int, float, bytes, np.number, np.ndarray, jax.Array, str, type(PLACEHOLDER)]


__all__ = [
    "PLACEHOLDER",
    "ArrayRestoreArgs",
    "RestoreArgs",
    "SaveArgs",
    "SingleReplicaArrayRestoreArgs",
    "is_ocdbt_checkpoint",
    "is_placeholder",
    "supported_types",
]
