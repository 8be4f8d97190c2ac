"""Version 1 of Orbax's interface on Cairn's native code.

    import cairn.orbax.v1 as ocp   # in place of: from orbax.checkpoint import v1 as ocp

The names, arguments, results and errors are those of orbax.checkpoint.v1 of 0.12.8, and so are the
files: each loads what the other has saved. It is for one process and local directories. A name or
option that is missing raises AttributeError or NotImplementedError, and the message says what to
use instead.
"""

import importlib
from typing import Any

_MODULES = (
    "arrays",
    "errors",
    "handlers",
    "multihost",
    "options",
    "partial",
    "path",
    "training",
    "tree",
)

# Where each name is defined, below cairn.orbax. Nothing is imported before it is used.
_NAMES = {
    name: module
    for module, names in {
        "v1.handlers": (
            "AbstractCheckpointable Checkpointable CheckpointableHandler StatefulCheckpointable"
        ),
        "_impl.v1.context": "Context",
        "_impl.v1.deletion": "delete delete_async",
        "_impl.v1.loading": (
            "PLACEHOLDER checkpointables_metadata is_orbax_checkpoint load load_async "
            "load_checkpointables load_checkpointables_async load_pytree load_pytree_async "
            "metadata pytree_metadata"
        ),
        "_impl.v1.metadata_types": "CheckpointMetadata",
        "_impl.v1.responses": "AsyncResponse",
        "_impl.v1.saving": (
            "save save_async save_checkpointables save_checkpointables_async save_pytree "
            "save_pytree_async"
        ),
        "v1.tree": "PyTreeMetadata",
    }.items()
    for name in names.split()
}

__all__ = [*_MODULES, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        value = getattr(importlib.import_module(f"cairn.orbax.{_NAMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(
        f"module {__name__!r} has no {name!r} yet: dir() shows what there is; cairn.orbax has the "
        "API of before version 1"
    )


def __dir__() -> "list[str]":
    return sorted(__all__)
