"""The names of Orbax's private modules that programs import. They lead to the same objects.

`cairn.orbax._src.path.step.NameFormat` is `cairn.orbax.path.step.NameFormat`. The modules have only
the names that cairn.orbax has; an AttributeError says so for others. A program that assigns to one
of these names changes nothing in Cairn.
"""

from cairn.orbax._impl.base.private_names import add_modules as _add_modules

# By module of Orbax: the modules of cairn.orbax that have its names.
_OWNERS = {
    "arrays.abstract_arrays": "arrays",
    "arrays.sharding": "arrays _impl.leaves.sharding_names",
    "checkpoint_managers.policy_checkpoint_info": "_impl.steps.preservation_policy",
    "checkpoint_managers.preservation_policy": "_impl.steps.preservation_policy",
    "checkpoint_managers.save_decision_policy": "_impl.steps.save_decision_policy",
    "checkpointers.abstract_checkpointer": "_impl.commit.checkpointer",
    "checkpointers.async_checkpointer": "_impl.commit.checkpointer",
    "checkpointers.checkpointer": "_impl.commit.checkpointer",
    "checkpointers.pytree_checkpointer": "_impl.commit.checkpointers",
    "checkpointers.standard_checkpointer": "_impl.commit.checkpointers",
    "composite": "_impl.handlers.composite",
    "futures.future": "future",
    "futures.synchronization": "_impl.base.signals",
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
    "metadata.root_metadata_serialization": "_impl.stored.root_metadata_serialization",
    "metadata.sharding": "_impl.leaves.shardings _impl.leaves.sharding_names",
    "metadata.step_metadata_serialization": "metadata",
    "metadata.tree": "metadata.tree tree _impl.handlers.base_pytree_handler",
    "metadata.value": "metadata.value _impl.stored.zarr_metadata",
    "metadata.value_metadata_entry": "metadata.tree",
    "multihost.multihost": "multihost",
    "multihost.multislice": "multihost.multislice",
    "path.atomicity": "_impl.stored.atomicity utils",
    "path.atomicity_types": "_impl.stored.atomicity",
    "path.format_utils": "type_handlers pytree_checkpoint_handler",
    "path.gcs_utils": "utils",
    "path.step": "step",
    "path.temporary_paths": "_impl.stored.atomicity",
    "serialization.cloud_pathways_array_handler": "_impl.types.pathways",
    "serialization.jax_array_handlers": "type_handlers",
    "serialization.jax_array_restore_args": "type_handlers",
    "serialization.limits": "_impl.types.byte_limits",
    "serialization.ocdbt_utils": "type_handlers",
    "serialization.pathways_handler_registry": "pathways",
    "serialization.pathways_types": "pathways",
    "serialization.serialization": "_impl.types.tensorstore_arrays",
    "serialization.tensorstore_utils": "serialization.tensorstore_utils type_handlers",
    "serialization.type_handler_registry": "type_handlers _impl.types.type_registry",
    "serialization.type_handlers": "type_handlers _impl.types.standard_types",
    "serialization.types": "type_handlers",
    "tree.parts_of": "_impl.trees.trim type_handlers",
    "tree.structure_utils": "tree _impl.trees.difference",
    "tree.utils": "tree _impl.trees.pytrees",
}

_add_modules(__name__, _OWNERS)
