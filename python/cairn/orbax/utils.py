"""Helpers of older code: trees, names of steps, processes."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.base.monitoring import record_saved_duration as record_saved_duration
from cairn.orbax._impl.base.processes import (
    is_pathways_backend,
    is_primary_host,
    reached_preemption,
    sync_global_devices,
)
from cairn.orbax._impl.leaves.arrays import (
    fully_replicated_host_local_array_to_global_array,
    is_scalar,
    to_shape_dtype_struct,
)
from cairn.orbax._impl.leaves.leaf_args import PLACEHOLDER
from cairn.orbax._impl.paths.checkpoint_paths import TEMPORARY_MARK as TMP_DIR_SUFFIX
from cairn.orbax._impl.paths.checkpoint_paths import is_gcs_path
from cairn.orbax._impl.steps.step_names import (
    any_checkpoint_step,
    checkpoint_steps,
    checkpoint_steps_paths,
    get_save_directory,
    step_from_checkpoint_name,
)
from cairn.orbax._impl.stored.atomicity import all_temporary_paths as tmp_checkpoints
from cairn.orbax._impl.stored.atomicity import is_path_finalized as is_checkpoint_finalized
from cairn.orbax._impl.stored.atomicity import is_path_temporary as is_tmp_checkpoint
from cairn.orbax._impl.stored.placeholders import (
    all_leaves_are_placeholders,
    leaf_is_placeholder,
    leaf_placeholder,
    name_from_leaf_placeholder,
    pytree_structure,
)
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
