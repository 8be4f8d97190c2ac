"""The names of Orbax's private modules of version 1. They lead to the same objects.

`cairn.orbax.experimental.v1._src.context.context.Context` is `cairn.orbax.v1.Context`. The modules
have only the names that cairn.orbax.v1 has; an AttributeError says so for others. A program that
assigns to one of these names changes nothing in Cairn.
"""

from cairn.orbax._impl.base.private_names import add_modules as _add_modules

# By module of Orbax: the modules of cairn.orbax that have its names.
_OWNERS = {
    "arrays.abstract_arrays": "v1.arrays",
    "arrays.types": "v1.arrays",
    "context.context": "_impl.v1.context",
    "context.options": "v1.options",
    "deletion.deletion": "v1",
    "deletion.errors": "v1.errors",
    "handlers.global_registration": "v1.handlers",
    "handlers.json_handler": "_impl.v1.handlers.file_handlers",
    "handlers.proto_handler": "v1.handlers",
    "handlers.pytree_handler": "v1.handlers",
    "handlers.registration": "v1.handlers _impl.v1.handlers.registry",
    "handlers.stateful_checkpointable_handler": "_impl.v1.handlers.stateful_handler",
    "handlers.types": "v1.handlers _impl.v1.handlers.handler_types",
    "layout.checkpoint_layout": "v1.errors",
    "layout.registry": "v1",
    "loading.loading": "v1",
    "metadata.loading": "v1",
    "metadata.types": "v1",
    "partial.saving": "v1.partial",
    "path.async_utils": "v1.path",
    "path.step": "v1.path.step step",
    "path.types": "v1.path",
    "saving.saving": "v1",
    "serialization.array_leaf_handler": "_impl.v1.handlers.leaf_types",
    "serialization.numpy_leaf_handler": "_impl.v1.handlers.leaf_types",
    "serialization.registry": "_impl.v1.handlers.leaf_types",
    "serialization.types": "v1.tree type_handlers _impl.v1.handlers.handler_types",
    "synchronization.multihost": "v1.multihost multihost",
    "synchronization.types": "v1",
    "training.checkpointer": "v1.training",
    "training.errors": "v1.training.errors",
    "training.metadata.types": "v1.training",
    "training.pathways.snapshotter": "v1.training.pathways",
    "training.preservation_policies": "v1.training.preservation_policies",
    "training.save_decision_policies": "v1.training.save_decision_policies",
    "tree.structure_utils": "tree",
    "tree.types": "v1.tree",
}

_add_modules(__name__, _OWNERS)
