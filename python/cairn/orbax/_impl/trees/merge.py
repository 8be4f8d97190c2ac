"""One tree of the leaves of several."""

from collections.abc import Callable, Mapping
from typing import Any

from cairn.orbax._impl.trees.plain import to_flat_dict
from cairn.orbax._impl.trees.pytrees import one_level

_IsLeaf = Callable[[Any], bool]


def merge_trees(*trees: Any, overwrite: bool = False, is_leaf: "_IsLeaf | None" = None) -> Any:
    """One tree of the leaves of all: a later one takes the place of an earlier one, unless None.

    Args:
      *trees: nodes at the same place have the same type, and sequences the same length.
      overwrite: whether two trees may have a leaf at the same place, or a node of another type,
        where the later one stays.
      is_leaf: which nodes are leaves; None and the leaves of JAX's registry by default.

    Raises:
      ValueError: two trees do not fit, or have the same leaf.
    """
    if not trees:
        return {}
    at_leaf = is_leaf or _is_leaf_or_none
    if not overwrite:
        _check_disjoint(trees, at_leaf)
    merged = trees[0]
    for tree in trees[1:]:
        merged = _merged(merged, tree, overwrite, at_leaf)
    return merged


def _is_leaf_or_none(node: Any) -> bool:
    import jax

    return node is None or bool(jax.tree_util.all_leaves([node]))


def _check_disjoint(trees: "tuple[Any, ...]", is_leaf: _IsLeaf) -> None:
    seen: set[Any] = set()
    for tree in trees:
        keys = set(to_flat_dict(tree, is_leaf=is_leaf))
        if keys & seen:
            raise ValueError(
                f"Found common key paths when overwrite is False: {sorted(keys & seen)}"
            )
        seen |= keys


def _merged(old: Any, new: Any, overwrite: bool, is_leaf: _IsLeaf) -> Any:
    if type(old) is not type(new) and not overwrite:
        raise ValueError(f"Types do not match: {type(new)} and {type(old)}")
    if is_leaf(old) or is_leaf(new):
        return old if new is None else new
    if type(old) is not type(new):
        return new
    if hasattr(new, "_fields"):
        pairs = _merged_members(old._asdict(), new._asdict(), overwrite, is_leaf)
        return type(new)(**pairs)
    if isinstance(new, Mapping):
        return type(new)(_merged_members(old, new, overwrite, is_leaf))  # type: ignore[call-arg]
    if isinstance(new, list | tuple):
        if len(new) != len(old):
            raise ValueError(f"Sequence lengths do not match: {len(new)} and {len(old)}")
        pairs_of_items = zip(old, new, strict=True)
        return type(new)(_merged(*pair, overwrite, is_leaf) for pair in pairs_of_items)
    return _merged_node(old, new, overwrite, is_leaf)


def _merged_members(old: Any, new: Any, overwrite: bool, is_leaf: _IsLeaf) -> "dict[Any, Any]":
    both = {
        key: _merged(old[key], new[key], overwrite, is_leaf) if key in old else new[key]
        for key in new
    }
    return {**old, **both}


def _merged_node(old: Any, new: Any, overwrite: bool, is_leaf: _IsLeaf) -> Any:
    import jax

    ours, kind = one_level(new)
    theirs, _ = one_level(old)
    pairs = zip(theirs, ours, strict=True)
    return jax.tree_util.tree_unflatten(
        kind, [_merged(*pair, overwrite, is_leaf) for pair in pairs]
    )
