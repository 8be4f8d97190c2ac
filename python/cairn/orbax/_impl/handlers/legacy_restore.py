"""Restores that only old programs and checkpoints need.

Such a restore has a legacy_transform_fn, or the checkpoint has a msgpack file with its structure or
with values. The restore_args then have the structure of the checkpoint, as in Orbax, or that of
what the function returns.
"""

import functools
from collections.abc import Callable
from typing import Any

from cairn.orbax._impl.handlers.described_tree import (
    converted,
    described,
    described_by,
    placed,
    typed,
)
from cairn.orbax._impl.handlers.pytree_restore import read_leaves
from cairn.orbax._impl.leaves.leaf_args import RestoreArgs, restore_args_of
from cairn.orbax._impl.leaves.matching_args import arguments_like
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.stored.stored_tree import StoredTree
from cairn.orbax._impl.trees import pytrees
from cairn.orbax._impl.trees.plain import deserialize_tree
from cairn.orbax._impl.trees.pytrees import Path
from cairn.orbax._impl.types.empty_values import is_empty_typestr
from cairn.orbax._impl.types.value_metadata_entry import ValueMetadataEntry


def restore_into(stored: StoredTree, target: Any, given: Any) -> Any:
    """The leaves of the target, looked up by their keys in the structure of the checkpoint.

    Where the target has a leaf, the checkpoint may have a container, which is returned whole. None
    and empty containers of the target stay.

    Raises:
      KeyError: the checkpoint lacks a key.
      ValueError: the RestoreArgs do not have the structure of the checkpoint.
    """
    import jax

    structure = stored.structure()
    restore_args = arguments_like(structure, given)
    indices = deserialize_tree(structure, target)
    paths = {index: path for path, index in stored.by_path.items()}
    wanted = {
        index: restore_args.get(paths[index]) or RestoreArgs()
        for index in jax.tree_util.tree_leaves(indices)
    }
    values = read_leaves(stored, wanted)
    return jax.tree_util.tree_map(values.__getitem__, indices)


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
    pair = described(stored) if has_structure else described_by(stored, args.item)
    structure, infos = args.legacy_transform_fn(args.item, *pair)
    given = args.restore_args
    if given is None:
        given = jax.tree_util.tree_map(lambda _: RestoreArgs(), args.item)
    arguments = _matched(structure, infos, given)
    info_of = pytrees.by_path(infos)
    found: dict[Path, Any] = {}
    reads: list[tuple[Path, int, RestoreArgs]] = []
    for path, leaf in pytrees.by_path(structure).items():
        found[path] = leaf
        is_entry = isinstance(leaf, ValueMetadataEntry)
        if is_entry and info_of[path].skip_deserialize:
            continue
        chosen = arguments[path]()
        if not is_entry:
            found[path] = placed(converted(leaf, chosen.dtype), chosen)
        elif not is_empty_typestr(chosen.restore_type or leaf.value_type):
            reads.append((path, _index(stored, info_of[path]), typed(chosen, leaf)))
    found.update(_read(stored, reads))
    treedef: Any = jax.tree_util.tree_structure(structure)
    return treedef.unflatten(found.values())


def _matched(structure: Any, infos: Any, given: Any) -> "dict[Path, Callable[[], RestoreArgs]]":
    """Functions that make the arguments of each leaf of what a function has returned."""
    import jax

    try:
        jax.tree_util.tree_map(lambda *_: 0, infos, structure)
        return pytrees.by_path(
            jax.tree_util.tree_map(
                lambda _, args: functools.partial(_arguments, args), structure, given
            )
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


def _arguments(given: Any) -> RestoreArgs:
    """The arguments of a leaf; None and empty containers stand for RestoreArgs()."""
    args = RestoreArgs() if pytrees.is_empty(given) else restore_args_of(given)
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
