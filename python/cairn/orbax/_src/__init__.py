"""The names of Orbax's private modules that programs import. They lead to the same objects.

`cairn.orbax._src.path.step.NameFormat` is `cairn.orbax.path.step.NameFormat`. The modules have only
the names that cairn.orbax has; an AttributeError says so for others. A program that assigns to one
of these names changes nothing in Cairn.
"""

import importlib
import sys
import types
from collections.abc import Callable
from typing import Any

# By module of Orbax: the modules of cairn.orbax that have its names.
_OWNERS = {
    "arrays.abstract_arrays": "arrays",
    "arrays.sharding": "arrays _impl.leaves.sharding_names",
    "checkpoint_managers.policy_checkpoint_info": "_impl.steps.preservation_policy",
    "checkpoint_managers.preservation_policy": "_impl.steps.preservation_policy",
    "checkpoint_managers.save_decision_policy": "_impl.steps.save_decision_policy",
    "checkpointers.abstract_checkpointer": "_impl.checkpointer",
    "checkpointers.async_checkpointer": "_impl.checkpointer",
    "checkpointers.checkpointer": "_impl.checkpointer",
    "checkpointers.pytree_checkpointer": "_impl.checkpointers",
    "checkpointers.standard_checkpointer": "_impl.checkpointers",
    "composite": "_impl.handlers.composite",
    "futures.future": "future",
    "futures.synchronization": "_impl.signals",
    "handlers.array_checkpoint_handler": "handlers",
    "handlers.async_checkpoint_handler": "_impl.handlers.handler",
    "handlers.base_pytree_checkpoint_handler": "pytree_checkpoint_handler type_handlers",
    "handlers.checkpoint_handler": "_impl.handlers.handler",
    "handlers.composite_checkpoint_handler": (
        "_impl.handlers.composite_handler handlers checkpoint_manager"
    ),
    "handlers.handler_registration": "_impl.handlers.registry",
    "handlers.json_checkpoint_handler": "_impl.handlers.json_handler",
    "handlers.proto_checkpoint_handler": "_impl.handlers.json_handler",
    "handlers.pytree_checkpoint_handler": "pytree_checkpoint_handler",
    "handlers.random_key_checkpoint_handler": "_impl.handlers.array_handler",
    "handlers.standard_checkpoint_handler": "_impl.handlers.standard_handler",
    "logging.abstract_logger": "logging",
    "logging.composite_logger": "logging",
    "logging.standard_logger": "logging",
    "logging.step_statistics": "logging.step_statistics",
    "metadata.array_metadata": "_impl.types.array_metadata",
    "metadata.array_metadata_store": "_impl.types.array_metadatas",
    "metadata.checkpoint": "metadata",
    "metadata.checkpoint_info": "_impl.steps.infos",
    "metadata.empty_values": "type_handlers",
    "metadata.pytree_metadata_options": "type_handlers",
    "metadata.sharding": "_impl.leaves.shardings _impl.leaves.sharding_names",
    "metadata.step_metadata_serialization": "metadata",
    "metadata.tree": "metadata.tree tree _impl.handlers.base_pytree_handler",
    "metadata.value": "metadata.value _impl.zarr_metadata",
    "metadata.value_metadata_entry": "metadata.tree",
    "multihost.multihost": "multihost",
    "path.atomicity": "_impl.atomicity utils",
    "path.atomicity_types": "_impl.atomicity",
    "path.format_utils": "type_handlers pytree_checkpoint_handler",
    "path.gcs_utils": "utils",
    "path.step": "step",
    "path.temporary_paths": "_impl.atomicity",
    "serialization.jax_array_handlers": "type_handlers",
    "serialization.jax_array_restore_args": "type_handlers",
    "serialization.limits": "_impl.types.byte_limits",
    "serialization.ocdbt_utils": "type_handlers",
    "serialization.pathways_handler_registry": "pathways",
    "serialization.pathways_types": "pathways",
    "serialization.tensorstore_utils": "serialization.tensorstore_utils type_handlers",
    "serialization.type_handler_registry": "type_handlers _impl.types.type_registry",
    "serialization.type_handlers": "type_handlers _impl.types.standard_types",
    "serialization.types": "type_handlers",
    "tree.parts_of": "_impl.tree_trim type_handlers",
    "tree.structure_utils": "tree _impl.tree_difference",
    "tree.utils": "tree _impl.trees",
}


def _finder(name: str, owners: "list[str]") -> "Callable[[str], Any]":
    """The function __getattr__ of a module: asks the modules that have its names."""

    def find(attribute: str) -> Any:
        is_special = attribute.startswith("__")
        for owner in () if is_special else owners:
            try:
                return getattr(importlib.import_module(f"cairn.orbax.{owner}"), attribute)
            except AttributeError:
                continue
        raise AttributeError(
            f"module {name!r} has no {attribute!r}: it has only what cairn.orbax has, and that is "
            "in the public modules of cairn.orbax, too"
        )

    return find


def _add(path: str, owners: str) -> None:
    """Makes a module, and the packages above it."""
    parent: Any = sys.modules[__name__]
    for part in path.split("."):
        name = f"{parent.__name__}.{part}"
        module = sys.modules.get(name)
        if module is None:
            module = sys.modules[name] = types.ModuleType(name, __doc__)
            module.__path__ = []
            setattr(parent, part, module)
        parent = module
    parent.__getattr__ = _finder(parent.__name__, owners.split())


for _path, _owners in _OWNERS.items():
    _add(_path, _owners)
