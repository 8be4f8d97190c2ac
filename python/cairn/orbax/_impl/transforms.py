"""Transforms: the leaves of a target, made of leaves of the stored tree with other names."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

from cairn.orbax._impl import trees
from cairn.orbax._impl.leaves.leaf_args import RestoreArgs
from cairn.orbax._impl.leaves.matching_args import arguments_by_path
from cairn.orbax._impl.stored_tree import Path, StoredTree


class TransformError(ValueError, AssertionError):
    """A transform has fields that exclude each other. Orbax raises AssertionError."""


@dataclasses.dataclass
class Transform:
    """How a leaf is made.

    original_key: the stored leaf to take, "a/b", with groups of the transform's regular expression.
    use_fallback: the value that is taken where no transform is given. value_fn: a function of the
    stored value. multi_value_fn: a function of the leaf's key and the stored tree.
    """

    original_key: "str | tuple[str, ...] | None" = None
    use_fallback: bool = False
    value_fn: "Callable[..., Any] | None" = None
    multi_value_fn: "Callable[..., Any] | None" = None

    def __post_init__(self) -> None:
        if isinstance(self.original_key, tuple):
            self.original_key = "/".join(self.original_key)
        functions = self.value_fn is not None or self.multi_value_fn is not None
        if self.use_fallback and (self.original_key is not None or functions):
            raise TransformError(f"use_fallback excludes everything else: {self}")
        if self.multi_value_fn is not None and (
            self.original_key is not None or self.value_fn is not None
        ):
            raise TransformError(f"multi_value_fn excludes original_key and value_fn: {self}")


@dataclasses.dataclass
class RestoreTransform(Transform):
    """The same for a restore. The functions also take the leaf's RestoreArgs.

    multi_value_fn_input_args: regular expressions of stored keys, with the RestoreArgs to read
    these leaves.
    """

    multi_value_fn_input_args: "dict[str, Any] | None" = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.multi_value_fn_input_args is not None and self.multi_value_fn is None:
            raise TransformError(f"multi_value_fn_input_args needs multi_value_fn: {self}")


def _joined(tree: Any) -> "dict[str, Any]":
    return {"/".join(path): leaf for path, leaf in trees.by_path(tree).items()}


def _with_empty(tree: Any) -> "dict[str, Any]":
    """The leaves, None and empty containers of a tree by their key."""
    paths, leaves, _ = trees.flatten(tree)
    return {"/".join(path): leaf for path, leaf in zip(paths, leaves, strict=True)}


def _nested(flat: "dict[str, Any]") -> "dict[str, Any]":
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        node = tree
        *parents, last = key.split("/")
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return tree


def _is_transform(node: Any) -> bool:
    return isinstance(node, Transform)


def _flat_transforms(transforms: Any) -> "dict[str, Transform]":
    paths, leaves, _ = trees.flatten(transforms, _is_transform)
    return {"/".join(path): leaf for path, leaf in zip(paths, leaves, strict=True)}


def _matching(transforms: "dict[str, Transform]", key: str) -> "list[tuple[Transform, Any]]":
    matches = [(rule, re.fullmatch(pattern, key)) for pattern, rule in transforms.items()]
    return [(rule, match) for rule, match in matches if match]


def _taken(origin: "dict[str, Any]", rule: Transform, match: Any, key: str) -> Any:
    source = key if rule.original_key is None else match.expand(rule.original_key)
    if source not in origin:
        raise ValueError(f'Transformation key "{source}" not found in origin tree.')
    return origin[source]


def apply_transformations(
    original_tree: Any,
    transformations: Any,
    new_tree: Any,
    default_to_original: "bool | None" = True,
) -> Any:
    """A tree of the structure of new_tree, its leaves made of those of original_tree.

    Args:
      original_tree: where values come from.
      transformations: a tree of Transform; keys are regular expressions of keys of new_tree.
      new_tree: the structure. A leaf that nothing makes keeps its value.
      default_to_original: a leaf without a transform is taken from original_tree if it is there.

    Raises:
      ValueError: a transform names a leaf that original_tree lacks.
    """
    origin = _joined(original_tree)
    return _apply(origin, original_tree, transformations, new_tree, default_to_original, {})


def _apply(
    origin: "dict[str, Any]",
    tree: Any,
    transformations: Any,
    new_tree: Any,
    default_to_original: "bool | None",
    restore_args: "dict[str, Any]",
) -> Any:
    paths, leaves, treedef = trees.flatten(new_tree, None)
    if not leaves and not new_tree:
        return {}
    rules = _flat_transforms(transformations)
    result = []
    for path, leaf in zip(paths, leaves, strict=True):
        key = "/".join(path)
        value = leaf
        matches = _matching(rules, key)
        if not matches and default_to_original:
            value = origin.get(key, leaf)
        for rule, match in matches:
            extra = (restore_args.get(key),) if isinstance(rule, RestoreTransform) else ()
            if rule.use_fallback:
                if not default_to_original:
                    if key not in origin:
                        raise ValueError(
                            f"{key} not found in origin tree (`use_fallback` requested)."
                        )
                    value = origin[key]
            elif rule.multi_value_fn is not None:
                value = rule.multi_value_fn(key, tree, *extra)
            else:
                value = _taken(origin, rule, match, key)
                if rule.value_fn is not None:
                    value = rule.value_fn(value)
        result.append(value)
    return treedef.unflatten(result)


def restore_transformed(stored: StoredTree, args: Any) -> Any:
    """Restores a target through transforms. Reads only the stored leaves that these need.

    Raises ValueError without a target or restore_args, and for a transform of a leaf that is not
    stored; KeyError if restore_args lack a leaf that is read.
    """
    from cairn.orbax._impl.pytree_restore import args_for, read_leaves

    if args.item is None:
        raise ValueError("If providing `transforms`, must provide `item` matching structure")
    if args.restore_args is None:
        raise ValueError("If providing `transforms`, must provide `restore_args` matching `item`")
    by_key = {"/".join(path): index for path, index in stored.by_path.items()}
    target = _with_empty(args.item)
    given = _with_empty(args.restore_args)
    known = {"/".join(path): one for path, one in arguments_by_path(args.restore_args).items()}

    def arguments(key: str) -> RestoreArgs:
        if key not in given:
            raise KeyError(f"restore_args have nothing for {key!r}, which item has")
        return args_for(known.get(key), target[key])

    rules = _flat_transforms(args.transforms)
    wanted: dict[int, RestoreArgs] = {}
    for key in target:
        matches = _matching(rules, key)
        for rule, match in matches:
            sources = [key if rule.original_key is None else match.expand(rule.original_key)]
            if rule.use_fallback and args.transforms_default_to_original:
                sources = []
            if rule.multi_value_fn is not None:
                _want_inputs(rule, by_key, wanted)
                sources = []
            wanted.update({by_key[s]: arguments(key) for s in sources if s in by_key})
        if not matches and args.transforms_default_to_original and key in by_key:
            wanted[by_key[key]] = arguments(key)
    values = read_leaves(stored, wanted)
    origin = {key: values[index] for key, index in by_key.items() if index in values}
    default = args.transforms_default_to_original
    target_args = {key: args_for(known.get(key), target[key]) for key in target}
    return _apply(origin, _nested(origin), args.transforms, args.item, default, target_args)


def _want_inputs(rule: Transform, by_key: "dict[str, int]", wanted: "dict[int, Any]") -> None:
    if not isinstance(rule, RestoreTransform):
        raise ValueError("multi_value_fn in a restore needs RestoreTransform, not Transform")
    if not rule.multi_value_fn_input_args:
        raise ValueError("RestoreTransform with multi_value_fn needs multi_value_fn_input_args")
    for pattern, args in rule.multi_value_fn_input_args.items():
        for key, index in by_key.items():
            if re.fullmatch(pattern, key):
                wanted[index] = args


def merge_trees(*trees_: Any, target: Any = None) -> Any:
    """One tree of the leaves of all; of equal keys the last. With the structure of the target."""
    merged: dict[Path, Any] = {}
    for tree in trees_:
        merged.update(trees.by_path(tree))
    return _like_target(merged, target)


def intersect_trees(*trees_: Any, target: Any = None) -> Any:
    """One tree of the leaves that all have, with the values of the last."""
    flats = [trees.by_path(tree) for tree in trees_]
    shared = set.intersection(*(set(flat) for flat in flats))
    return _like_target({path: flats[-1][path] for path in flats[-1] if path in shared}, target)


def _like_target(flat: "dict[Path, Any]", target: Any) -> Any:
    if target is None:
        if () in flat:  # the tree is one leaf
            return flat[()]
        tree: dict[str, Any] = {}
        for path, value in flat.items():
            node = tree
            for key in path[:-1]:
                node = node.setdefault(key, {})
            node[path[-1]] = value
        return tree
    paths, _, treedef = trees.flatten(target, None)
    return treedef.unflatten([flat[path] for path in paths])
