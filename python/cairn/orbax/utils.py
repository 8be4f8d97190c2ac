"""Helpers of older code: trees, names of steps, processes."""

from typing import Any

from cairn.orbax._impl.atomicity import all_temporary_paths as tmp_checkpoints
from cairn.orbax._impl.atomicity import is_path_finalized as is_checkpoint_finalized
from cairn.orbax._impl.atomicity import is_path_temporary as is_tmp_checkpoint
from cairn.orbax._impl.leaves.leaf_args import PLACEHOLDER
from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax._impl.monitoring import record_saved_duration as record_saved_duration
from cairn.orbax._impl.paths import TEMPORARY_MARK as TMP_DIR_SUFFIX
from cairn.orbax._impl.paths import TREE_METADATA_FILE, as_path
from cairn.orbax._impl.processes import is_primary_host, reached_preemption
from cairn.orbax._impl.steps.step_names import (
    any_checkpoint_step,
    checkpoint_steps,
    checkpoint_steps_paths,
    get_save_directory,
    step_from_checkpoint_name,
)
from cairn.orbax._impl.stored_tree import ARRAY_METADATA_FOLDER, PLACEHOLDER_PREFIX
from cairn.orbax.arrays import to_shape_dtype_struct
from cairn.orbax.multihost import broadcast_one_to_all, sync_global_processes
from cairn.orbax.tree import (
    PyTree,
    deserialize_tree,
    from_flat_dict,
    from_flattened_with_keypath,
    get_key_name,
    is_dict_key,
    is_empty_node,
    is_empty_or_leaf,
    is_sequence_key,
    serialize_tree,
    to_flat_dict,
    tuple_path_from_keypath,
)

__getattr__ = _hints(__name__)

_NOT_ARRAYS = ("_sharding", TREE_METADATA_FILE, ARRAY_METADATA_FOLDER)


def leaf_is_placeholder(leaf: Any) -> bool:
    """Whether a leaf stands for one that is stored elsewhere."""
    return isinstance(leaf, str) and leaf.startswith(PLACEHOLDER_PREFIX)


def all_leaves_are_placeholders(tree: Any) -> bool:
    """Whether every leaf of a tree stands for one that is stored elsewhere."""
    import jax

    return all(leaf_is_placeholder(leaf) for leaf in jax.tree_util.tree_leaves(tree))


def is_pathways_backend() -> bool:
    """False: Pathways is not available."""
    return False


def leaf_placeholder(name: str) -> str:
    """What stands for a leaf of this name."""
    return f"{PLACEHOLDER_PREFIX}{name}"


def name_from_leaf_placeholder(placeholder: str) -> str:
    """The name that a placeholder stands for. Raises ValueError for anything else."""
    if not leaf_is_placeholder(placeholder):
        raise ValueError("Requested name from placeholder, but value was not a placeholder.")
    return placeholder.removeprefix(PLACEHOLDER_PREFIX)


def pytree_structure(directory: Any) -> "dict[str, Any]":
    """A nested dict of placeholders for the arrays that are directories, split at the dots."""
    tree: dict[str, Any] = {}
    for child in as_path(directory).iterdir():
        if child.name in _NOT_ARRAYS:
            continue
        *parents, last = child.name.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = leaf_placeholder(child.name)
    return tree


def is_scalar(x: Any) -> bool:
    """Whether a value is a number."""
    import numpy as np

    return isinstance(x, int | float | np.number)


def is_gcs_path(path: Any) -> bool:
    """Whether a path is in Google's object store."""
    return str(path).startswith(("gs://", "/gs/"))


def fully_replicated_host_local_array_to_global_array(arr: Any) -> Any:
    """One array, on all devices of all processes, of the same values on the devices of each."""
    import jax
    import numpy as np

    parts = sorted((shard.data for shard in arr.addressable_shards), key=lambda one: one.device.id)
    shape = parts[0].shape
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("x",))
    spec = jax.sharding.PartitionSpec(*([None] if shape else []))  # type: ignore[no-untyped-call]
    return jax.make_array_from_single_device_arrays(
        shape, jax.sharding.NamedSharding(mesh, spec), parts
    )


def sync_global_devices(name: str, **options: Any) -> None:
    """Waits for the other processes."""
    sync_global_processes(name, **options)


__all__ = [
    "PLACEHOLDER",
    "PyTree",
    "TMP_DIR_SUFFIX",
    "all_leaves_are_placeholders",
    "any_checkpoint_step",
    "broadcast_one_to_all",
    "checkpoint_steps",
    "checkpoint_steps_paths",
    "deserialize_tree",
    "from_flat_dict",
    "from_flattened_with_keypath",
    "fully_replicated_host_local_array_to_global_array",
    "get_key_name",
    "get_save_directory",
    "is_checkpoint_finalized",
    "is_dict_key",
    "is_empty_node",
    "is_empty_or_leaf",
    "is_gcs_path",
    "is_pathways_backend",
    "is_primary_host",
    "is_scalar",
    "is_sequence_key",
    "is_tmp_checkpoint",
    "leaf_is_placeholder",
    "leaf_placeholder",
    "name_from_leaf_placeholder",
    "pytree_structure",
    "reached_preemption",
    "record_saved_duration",
    "serialize_tree",
    "step_from_checkpoint_name",
    "sync_global_devices",
    "sync_global_processes",
    "tmp_checkpoints",
    "to_flat_dict",
    "to_shape_dtype_struct",
    "tuple_path_from_keypath",
]
