"""Restores a tree: as stored, or into the caller's target."""

import dataclasses
from typing import Any

from cairn.orbax._impl.handlers.as_placed import AsPlaced, args_as_placed
from cairn.orbax._impl.leaves.leaf_args import (
    DEFAULT_RESTORE_ARGS,
    ArrayRestoreArgs,
    RestoreArgs,
)
from cairn.orbax._impl.leaves.leaf_reads import LeafReads, is_key_dtype
from cairn.orbax._impl.leaves.matching_args import check_parts, leaf_arguments, trimmed
from cairn.orbax._impl.stored.stored_tree import StoredTree, fill
from cairn.orbax._impl.trees import pytrees
from cairn.orbax._impl.trees.pytrees import Path
from cairn.orbax._impl.types.own_restores import restore_own


def restore_stored(stored: StoredTree, args: Any) -> Any:
    """The tree that PyTreeRestoreArgs asks for."""
    if args.item is None:
        return _as_stored(stored, args.restore_args)
    return _like(stored, args.item, args.restore_args, args.partial_restore)


def read_leaves(stored: StoredTree, wanted: "dict[int, RestoreArgs]") -> "dict[int, Any]":
    """The values of leaves, with arguments each, in one plan of reads."""
    native, values = restore_own(stored, wanted)
    reads = LeafReads(stored)
    for index, args in native.items():
        reads.add(index, args)
    values.update(zip(native, reads.run(), strict=True))
    return values


def _as_stored(stored: StoredTree, given: Any) -> Any:
    if not stored.types:
        raise ValueError(f"{stored.directory}: the stored tree is empty")
    structure = stored.structure()
    wanted = dict.fromkeys(range(len(stored.types)), DEFAULT_RESTORE_ARGS)
    if isinstance(given, AsPlaced):
        wanted.update(args_as_placed(stored, given))
    elif given is not None:
        _, indices, treedef = pytrees.flatten(structure)
        arguments = leaf_arguments(treedef, structure, given)
        wanted.update(zip(indices, arguments, strict=True))
    return fill(structure, read_leaves(stored, wanted))


def _like(stored: StoredTree, target: Any, given: Any, partial: bool) -> Any:
    paths, leaves, treedef = pytrees.flatten(target)
    if partial:
        check_parts(target, stored.structure())
        given = trimmed(target, given)
    else:
        _check_structure(stored, paths, leaves)
    arguments = leaf_arguments(treedef, target, given)
    indices = [stored.by_path.get(path, -1) for path in paths]
    wanted: dict[int, RestoreArgs] = {}
    for index, leaf, args in zip(indices, leaves, arguments, strict=True):
        # With partial_restore, `...` stands for a value that the target does not have yet.
        is_wanted = partial or leaf is not ...
        if index >= 0 and is_wanted and not pytrees.is_empty(leaf):
            wanted[index] = _args_for(args, leaf)
    values = read_leaves(stored, wanted)
    result = [values.get(index, leaf) for index, leaf in zip(indices, leaves, strict=True)]
    return treedef.unflatten(result)


def _args_for(args: RestoreArgs, leaf: Any) -> RestoreArgs:
    """Returns the arguments of a leaf. An array gets the shape and dtype of the target's array.

    As in Orbax, they do not with strict=False, nor from an array without dimensions.
    """
    if not isinstance(args, ArrayRestoreArgs) or not args.strict or isinstance(leaf, type):
        return args
    if not getattr(leaf, "shape", ()) or not hasattr(leaf, "dtype") or is_key_dtype(leaf.dtype):
        return args
    changes: dict[str, Any] = {}
    if args.global_shape is None:
        changes.update(global_shape=tuple(leaf.shape), shape=None)
    if args.dtype is None:
        changes["dtype"] = leaf.dtype
    return dataclasses.replace(args, **changes) if changes else args


def _check_structure(stored: StoredTree, paths: "list[Path]", leaves: "list[Any]") -> None:
    """Raises ValueError if the target and the stored tree differ."""
    wanted = dict(zip(paths, leaves, strict=True))
    if wanted.keys() == stored.by_path.keys():
        return
    lines = []
    for path in paths:
        if path not in stored.by_path:
            lines.append(f"{pytrees.dotted(path)}:\n    - Source: present\n    - Target: MISSING")
    for path, index in stored.by_path.items():
        # An empty node of a class of the caller's has no leaf in the target.
        if path not in wanted and not stored.is_empty(index):
            lines.append(f"{pytrees.dotted(path)}:\n    - Source: MISSING\n    - Target: present")
    if lines:
        more = f"\n... and {len(lines) - 20} more" if len(lines) > 20 else ""
        raise ValueError(
            f"{stored.directory}: User-provided restore item and on-disk value metadata tree "
            "structures do not match (Source: the item, Target: the checkpoint):\n"
            + "\n".join(lines[:20])
            + more
            + "\nIf this mismatch is intentional, pass `partial_restore=True`."
        )
