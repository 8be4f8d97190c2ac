"""A stored tree with what is known of its leaves in their place, for restores that change it."""

import dataclasses
from typing import Any

from cairn.orbax._impl.handlers.pytree_restore import read_leaves
from cairn.orbax._impl.leaves.leaf_args import ArrayRestoreArgs, RestoreArgs
from cairn.orbax._impl.leaves.shardings import concrete_sharding
from cairn.orbax._impl.leaves.tree_metadata import write_shapes
from cairn.orbax._impl.paths.checkpoint_paths import TREE_METADATA_FILE
from cairn.orbax._impl.stored.stored_tree import StoredTree, fill, values_in_file
from cairn.orbax._impl.trees import pytrees
from cairn.orbax._impl.types.own_restores import stored_param_info
from cairn.orbax._impl.types.type_handler import ParamInfo
from cairn.orbax._impl.types.value_metadata_entry import ValueMetadataEntry

UNKNOWN = "Unknown"  # the type of a leaf without a recorded one


def described(stored: StoredTree) -> "tuple[Any, Any]":
    """The stored tree with what is known of its leaves, and with their ParamInfo."""
    has_types = (stored.directory / TREE_METADATA_FILE).exists()
    in_file = values_in_file(stored.directory, stored.aggregate_filename)
    # A msgpack file has None and empty containers; _METADATA has entries for them.
    has_file = (stored.directory / stored.aggregate_filename).exists() or not has_types
    shapes = write_shapes(stored)
    is_whole = {
        index: path in in_file or (has_file and stored.is_empty(index))
        for path, index in stored.by_path.items()
    }
    whole = [index for index, is_value in is_whole.items() if is_value]
    entries: dict[int, Any] = read_leaves(stored, dict.fromkeys(whole, RestoreArgs()))
    infos: dict[int, Any] = dict(entries)
    for path, index in stored.by_path.items():
        is_value = is_whole[index]
        if not is_value:
            typestr = stored.infos[index].typestr if has_types else UNKNOWN
            entries[index] = ValueMetadataEntry(typestr, stored.is_empty(index), shapes.get(path))
        if not (is_value and stored.is_empty(index)):
            is_skipped = is_value or stored.is_empty(index)
            infos[index] = _param_info(stored, stored.infos[index].name, is_skipped)
    return fill(stored.structure(), entries), fill(stored.structure(), infos)


def described_by(stored: StoredTree, target: Any) -> "tuple[Any, Any]":
    """The same for arrays without any structure, of the target's names."""
    paths, _, treedef = pytrees.flatten(target, None)
    infos = [_param_info(stored, ".".join(path), False) for path in paths]
    return treedef.unflatten([ValueMetadataEntry(UNKNOWN)] * len(paths)), treedef.unflatten(infos)


def _param_info(stored: StoredTree, name: str, is_skipped: bool) -> ParamInfo:
    return stored_param_info(
        stored, name, skip_deserialize=is_skipped, raise_array_data_missing_error=False
    )


def typed(args: RestoreArgs, entry: ValueMetadataEntry) -> RestoreArgs:
    """The arguments with the type that the entry names, unless they have one."""
    if args.restore_type is not None or entry.value_type == UNKNOWN:
        return args
    return dataclasses.replace(args, restore_type=entry.value_type)


# ---- values of a msgpack file ----


def converted(value: Any, dtype: Any) -> Any:
    """A value as another type: numbers become those of Python."""
    import numpy as np

    if dtype is None:
        return value
    if isinstance(value, int | float | np.number):
        return np.asarray(value).astype(dtype).item()
    return value.astype(dtype) if hasattr(value, "astype") else value


def placed(value: Any, args: RestoreArgs) -> Any:
    """An array where ArrayRestoreArgs place it."""
    if not isinstance(args, ArrayRestoreArgs) or not hasattr(value, "reshape"):
        return value
    import jax

    array = value if args.global_shape is None else value.reshape(args.global_shape)
    sharding = args.sharding
    if sharding is None:
        sharding = jax.sharding.NamedSharding(args.mesh, args.mesh_axes)
    return jax.device_put(array, concrete_sharding(sharding))
