"""Orbax's interface on Cairn's native code.

    import cairn.orbax as ocp   # in place of: import orbax.checkpoint as ocp

The names, arguments, results and errors are those of orbax.checkpoint 0.12.8, and so are the files:
each restores what the other has saved. Version 1 of the API is cairn.orbax.v1. Needs JAX for trees.
It is for local directories, and for one process or those of jax.distributed. use_as_orbax() or
`python -m cairn.orbax` gives a program Cairn where it imports Orbax. A name or option that is
missing raises AttributeError or NotImplementedError, and the message says what to use instead.
"""

import importlib
from typing import Any

from cairn import _installation as _installation
from cairn.orbax._impl.base.version import __version__

_MODULES = (
    "abstract_checkpoint_manager",
    "aggregate_handlers",
    "args",
    "arrays",
    "checkpoint_args",
    "checkpoint_manager",
    "checkpoint_managers",
    "checkpoint_utils",
    "checkpointers",
    "experimental",
    "future",
    "handlers",
    "logging",
    "metadata",
    "msgpack_utils",
    "multihost",
    "options",
    "path",
    "pathways",
    "serialization",
    "step",
    "test_utils",
    "transform_utils",
    "tree",
    "type_handlers",
    "utils",
    "v1",
    "version",
)

# Where each name is defined. Nothing is imported before it is used.
_NAMES = {
    name: module
    for module, names in {
        "options": "AsyncOptions",
        "future": "Future",
        "transform_utils": "RestoreTransform Transform apply_transformations merge_trees",
        "checkpointers": (
            "AbstractCheckpointer AsyncCheckpointer Checkpointer PyTreeCheckpointer "
            "StandardCheckpointer"
        ),
        "checkpoint_managers": (
            "AbstractCheckpointManager CheckpointManager CheckpointManagerOptions"
        ),
        "type_handlers": "ArrayRestoreArgs PLACEHOLDER RestoreArgs SaveArgs",
        "handlers": (
            "ArrayCheckpointHandler AsyncCheckpointHandler CheckpointHandler "
            "CheckpointHandlerRegistry CompositeCheckpointHandler DefaultCheckpointHandlerRegistry "
            "JaxRandomKeyCheckpointHandler JsonCheckpointHandler NumpyRandomKeyCheckpointHandler "
            "ProtoCheckpointHandler PyTreeCheckpointHandler StandardCheckpointHandler"
        ),
        "_impl.handlers.composite_handler": "CompositeOptions",
        "_impl.handlers.base_pytree_handler": "BasePyTreeCheckpointHandler",
        "_impl.types.into_orbax": "install_into_orbax uninstall_from_orbax",
        "_impl.base.as_orbax": "use_as_orbax",
    }.items()
    for name in names.split()
}

__all__ = ["__version__", *_MODULES, *_NAMES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    if name in _NAMES:
        value = getattr(importlib.import_module(f"{__name__}.{_NAMES[name]}"), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module {__name__!r} has no {name!r} yet")


def __dir__() -> "list[str]":
    return sorted(__all__)
