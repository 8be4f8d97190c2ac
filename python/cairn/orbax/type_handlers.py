"""Arguments of leaves. Handlers of leaves are native; a type of your own needs a CheckpointHandler."""

from typing import Any, NoReturn

from cairn.orbax._impl.leaf_args import (
    PLACEHOLDER,
    ArrayRestoreArgs,
    RestoreArgs,
    SaveArgs,
    SingleReplicaArrayRestoreArgs,
    is_placeholder,
)

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


def __getattr__(name: str) -> "NoReturn":
    hint = _MISSING.get(name, "see cairn.orbax for what there is")
    raise AttributeError(f"cairn.orbax.type_handlers has no {name!r} yet: {hint}")


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
