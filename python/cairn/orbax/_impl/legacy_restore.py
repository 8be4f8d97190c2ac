"""Restores that only old programs and checkpoints need.

Such a restore has a legacy_transform_fn, or the checkpoint has a msgpack file with its structure or
with values. The restore_args then have the structure of the checkpoint, as in Orbax, or that of
what the function returns.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

from cairn.orbax._impl import trees
from cairn.orbax._impl.leaves.leaf_args import ArrayRestoreArgs, RestoreArgs, restore_args_of
from cairn.orbax._impl.leaves.matching_args import arguments_like
from cairn.orbax._impl.leaves.shardings import concrete_sharding
from cairn.orbax._impl.paths import OCDBT_MANIFEST, TREE_METADATA_FILE, as_path
from cairn.orbax._impl.pytree_restore import read_leaves
from cairn.orbax._impl.stored_tree import (
    AGGREGATE_FILE,
    Path,
    StoredTree,
    fill,
    values_in_file,
)
from cairn.orbax._impl.tree_metadata import write_shapes
from cairn.orbax._impl.types.empty_values import is_empty_typestr
from cairn.orbax._impl.types.type_handler import ParamInfo
from cairn.orbax._impl.types.value_metadata_entry import ValueMetadataEntry

_UNKNOWN = "Unknown"  # the type of a leaf without a recorded one


def restore_into(stored: StoredTree, target: Any, given: Any) -> Any:
    """The leaves of the target, looked up by their keys in the structure of the checkpoint.

    Where the target has a leaf, the checkpoint may have a container, which is returned whole. None
    and empty containers of the target stay.

    Raises:
      KeyError: the checkpoint lacks a key.
      ValueError: the RestoreArgs do not have the structure of the checkpoint.
    """
    import jax

    from cairn.orbax.tree import deserialize_tree

    structure = stored.structure()
    restore_args = arguments_like(structure, given)
    indices = deserialize_tree(structure, target)
    paths = {index: path for path, index in stored.by_path.items()}
    wanted = {
        index: restore_args.get(paths[index]) or RestoreArgs() for index in jax.tree.leaves(indices)
    }
    values = read_leaves(stored, wanted)
    return jax.tree.map(values.__getitem__, indices)


def restore_by_function(stored: StoredTree, args: Any, has_structure: bool) -> Any:
    """Restores what args.legacy_transform_fn selects.

    The function takes the target, a tree with a ValueMetadataEntry for each stored leaf, and a tree
    with their ParamInfo. It returns the last two, changed. The name of a ParamInfo says which leaf
    is read; with skip_deserialize, none is, and the entry is the result. Values of a msgpack file
    stand in place of entries. Without a structure (has_structure), that of the target is taken.

    Raises:
      ValueError: there are transforms, too; the two trees or the RestoreArgs have different
        structures; a leaf that is named is not stored.
      NotImplementedError: a leaf of another directory is named.
    """
    import jax

    if args.transforms is not None:
        raise ValueError("Cannot provide both `transforms` and `legacy_transform_fn`.")
    described = _described(stored) if has_structure else _described_by(stored, args.item)
    structure, infos = args.legacy_transform_fn(args.item, *described)
    given = args.restore_args
    if given is None:
        given = jax.tree.map(lambda _: RestoreArgs(), args.item)
    arguments = _matched(structure, infos, given)
    info_of = trees.by_path(infos)
    found: dict[Path, Any] = {}
    reads: list[tuple[Path, int, RestoreArgs]] = []
    for path, leaf in trees.by_path(structure).items():
        found[path] = leaf
        is_entry = isinstance(leaf, ValueMetadataEntry)
        if is_entry and info_of[path].skip_deserialize:
            continue
        chosen = arguments[path]()
        if not is_entry:
            found[path] = _placed(_converted(leaf, chosen.dtype), chosen)
        elif not is_empty_typestr(chosen.restore_type or leaf.value_type):
            reads.append((path, _index(stored, info_of[path]), _typed(chosen, leaf)))
    found.update(_read(stored, reads))
    treedef: Any = jax.tree.structure(structure)
    return treedef.unflatten(found.values())


def _matched(structure: Any, infos: Any, given: Any) -> "dict[Path, Callable[[], RestoreArgs]]":
    """Functions that make the arguments of each leaf of what a function has returned."""
    import jax

    try:
        jax.tree.map(lambda *_: 0, infos, structure)
        return trees.by_path(
            jax.tree.map(lambda _, args: functools.partial(_arguments, args), structure, given)
        )
    except ValueError as error:
        raise ValueError(
            "legacy_transform_fn must return two trees of one structure, which is that of "
            f"restore_args, or of the target: {error}"
        ) from error


def _read(stored: StoredTree, reads: "list[tuple[Path, int, RestoreArgs]]") -> "dict[Path, Any]":
    """The values of leaves by the path of the result, which may have a leaf more than once."""
    found: dict[Path, Any] = {}
    while reads:
        now: dict[int, tuple[Path, RestoreArgs]] = {}
        later = []
        for path, index, args in reads:
            if index in now:
                later.append((path, index, args))
            else:
                now[index] = (path, args)
        values = read_leaves(stored, {index: args for index, (_, args) in now.items()})
        found.update((path, values[index]) for index, (path, _) in now.items())
        reads = later
    return found


def _described(stored: StoredTree) -> "tuple[Any, Any]":
    """The stored tree with what is known of its leaves, and with their ParamInfo."""
    has_types = (stored.directory / TREE_METADATA_FILE).exists()
    in_file = values_in_file(stored.directory)
    # A msgpack file has None and empty containers; _METADATA has entries for them.
    has_file = (stored.directory / AGGREGATE_FILE).exists() or not has_types
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
            typestr = stored.infos[index].typestr if has_types else _UNKNOWN
            entries[index] = ValueMetadataEntry(typestr, stored.is_empty(index), shapes.get(path))
        if not (is_value and stored.is_empty(index)):
            is_skipped = is_value or stored.is_empty(index)
            infos[index] = _param_info(stored, stored.infos[index].name, is_skipped)
    return fill(stored.structure(), entries), fill(stored.structure(), infos)


def _described_by(stored: StoredTree, target: Any) -> "tuple[Any, Any]":
    """The same for arrays without any structure, of the target's names."""
    paths, _, treedef = trees.flatten(target, None)
    infos = [_param_info(stored, ".".join(path), False) for path in paths]
    return treedef.unflatten([ValueMetadataEntry(_UNKNOWN)] * len(paths)), treedef.unflatten(infos)


def _param_info(stored: StoredTree, name: str, is_skipped: bool) -> ParamInfo:
    return ParamInfo(
        name=name,
        parent_dir=stored.directory,
        skip_deserialize=is_skipped,
        is_ocdbt_checkpoint=bool((stored.directory / OCDBT_MANIFEST).exists()),
        use_zarr3=bool(stored.tree_metadata().get("use_zarr3")),
        raise_array_data_missing_error=False,
    )


def _arguments(given: Any) -> RestoreArgs:
    """The arguments of a leaf; None and empty containers stand for RestoreArgs()."""
    args = RestoreArgs() if trees.is_empty(given) else restore_args_of(given)
    if args is None:
        raise ValueError(f"{given!r} is not RestoreArgs")
    return args


def _index(stored: StoredTree, info: Any) -> int:
    """The number of the leaf that a ParamInfo names."""
    if as_path(info.parent_dir) != stored.directory:
        raise NotImplementedError(
            f"legacy_transform_fn: {info.name!r} is in {info.parent_dir}; only leaves of "
            f"{stored.directory} are restored: restore the other checkpoint on its own"
        )
    try:
        return stored.index(info.name)
    except KeyError:
        raise ValueError(f"NOT_FOUND: {stored.directory} has no leaf {info.name!r}") from None


def _typed(args: RestoreArgs, entry: ValueMetadataEntry) -> RestoreArgs:
    """The arguments with the type that the entry names, unless they have one."""
    if args.restore_type is not None or entry.value_type == _UNKNOWN:
        return args
    return dataclasses.replace(args, restore_type=entry.value_type)


# ---- values of a msgpack file ----


def _converted(value: Any, dtype: Any) -> Any:
    """A value as another type: numbers become those of Python."""
    import numpy as np

    if dtype is None:
        return value
    if isinstance(value, int | float | np.number):
        return np.asarray(value).astype(dtype).item()
    return value.astype(dtype) if hasattr(value, "astype") else value


def _placed(value: Any, args: RestoreArgs) -> Any:
    """An array where ArrayRestoreArgs place it."""
    if not isinstance(args, ArrayRestoreArgs) or not hasattr(value, "reshape"):
        return value
    import jax

    array = value if args.global_shape is None else value.reshape(args.global_shape)
    sharding = args.sharding
    if sharding is None:
        sharding = jax.sharding.NamedSharding(args.mesh, args.mesh_axes)
    return jax.device_put(array, concrete_sharding(sharding))
