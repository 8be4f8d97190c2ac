"""Transforms: the leaves of a target, made of leaves of the stored tree with other names."""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

from cairn.orbax._impl.trees import pytrees
from cairn.orbax._impl.trees.pytrees import Path


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

    def source(self, match: "re.Match[str]", key: str) -> str:
        """The key of the leaf that is taken to make the leaf `key`, which has matched."""
        return key if self.original_key is None else match.expand(str(self.original_key))


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


def _joined(tree: Any, is_leaf: "Callable[[Any], bool] | None" = None) -> "dict[str, Any]":
    """The leaves of a tree by their keys with slashes."""
    paths, leaves, _ = pytrees.flatten(tree, is_leaf)
    return {"/".join(path): leaf for path, leaf in zip(paths, leaves, strict=True)}


def _is_transform(node: Any) -> bool:
    return isinstance(node, Transform)


def apply_transformations(
    original_tree: Any,
    transformations: Any,
    new_tree: Any,
    default_to_original: "bool | None" = True,
) -> Any:
    """A tree of the structure of new_tree, its leaves made of those of original_tree.

    Args:
      original_tree: where values come from.
      transformations: a tree of Transform; keys are regular expressions of keys of new_tree. Of
        several that match, the last one makes the leaf.
      new_tree: the structure. A leaf that nothing makes keeps its value.
      default_to_original: a leaf without a transform is taken from original_tree if it is there.

    Raises:
      ValueError: a transform names a leaf that original_tree lacks.
    """
    paths, leaves, treedef = pytrees.flatten(new_tree, None)
    if not leaves and not new_tree:
        return {}
    origin = _joined(original_tree)
    rules = _joined(transformations, _is_transform)
    result = []
    for path, leaf in zip(paths, leaves, strict=True):
        key = "/".join(path)
        value = leaf
        matches = [(rule, re.fullmatch(pattern, key)) for pattern, rule in rules.items()]
        if default_to_original and not any(match for _, match in matches):
            value = origin.get(key, leaf)
        for rule, match in matches:
            if match is None:
                continue
            if rule.multi_value_fn is not None:
                value = rule.multi_value_fn(key, original_tree)
            elif not rule.use_fallback:
                value = _taken(origin, rule, match, key)
            elif not default_to_original:
                if key not in origin:
                    raise ValueError(f"{key} not found in origin tree (`use_fallback` requested).")
                value = origin[key]
        result.append(value)
    return treedef.unflatten(result)


def _taken(origin: "dict[str, Any]", rule: Transform, match: Any, key: str) -> Any:
    source = rule.source(match, key)
    if source not in origin:
        raise ValueError(f'Transformation key "{source}" not found in origin tree.')
    return origin[source] if rule.value_fn is None else rule.value_fn(origin[source])


def merge_trees(*trees_: Any, target: Any = None) -> Any:
    """One tree of the leaves of all; of equal keys the last. With the structure of the target."""
    merged: dict[Path, Any] = {}
    for tree in trees_:
        merged.update(pytrees.by_path(tree))
    return _like_target(merged, target)


def intersect_trees(*trees_: Any, target: Any = None) -> Any:
    """One tree of the leaves that all have, with the values of the last."""
    flats = [pytrees.by_path(tree) for tree in trees_]
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
    paths, _, treedef = pytrees.flatten(target, None)
    return treedef.unflatten([flat[path] for path in paths])
