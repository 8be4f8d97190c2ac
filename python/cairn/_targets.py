"""The leaves of a target: where they lie in a tree, and a tree like it with other leaves."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Mapping, MutableMapping

from cairn._arguments import printable
from cairn._leaves import key_text

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

Path = tuple[str, ...]


def flatten(
    target: Any, empty_dicts: bool = False
) -> tuple[list[Path], list[Any], Callable[[list[Any]], Any]]:
    """Paths and leaves of a tree, and a function that makes the tree again with other leaves.

    By JAX's registry, if the program has imported JAX, and dataclasses and mappings that it lacks.
    Else dicts, lists, tuples, named tuples and dataclasses are nodes. None and empty containers are
    not leaves; with empty_dicts, mappings without members are.
    """
    jax = sys.modules.get("jax")
    if jax is not None:
        is_leaf = is_empty_dict if empty_dicts else None
        pairs, treedef = jax.tree_util.tree_flatten_with_path(target, is_leaf=is_leaf)
        paths = [tuple(key_text(key) for key in path) for path, _ in pairs]
        leaves = [leaf for _, leaf in pairs]
        return _open_leaves(paths, leaves, treedef.unflatten, empty_dicts)
    paths, leaves = [], []
    is_leaf = is_empty_dict if empty_dicts else _never

    def collect(path: Path, leaf: Any) -> Any:
        paths.append(path)
        leaves.append(leaf)
        return leaf

    _map(target, (), collect, is_leaf)

    def rebuild(others: list[Any]) -> Any:
        following = iter(others)
        return _map(target, (), lambda path, leaf: next(following), is_leaf)

    return paths, leaves, rebuild


def is_empty_dict(node: Any) -> bool:
    """Whether a node is a mapping without members."""
    return isinstance(node, Mapping) and not node


def _never(node: Any) -> bool:
    return False


def with_members(empty: Any, members: dict[Any, Any]) -> Any:
    """A mapping like an empty one, with members."""
    if type(empty) is dict:
        return members
    if isinstance(empty, MutableMapping):
        import copy

        made = copy.copy(empty)  # the default_factory of a defaultdict stays
        made.update(members)
        return made
    return type(empty)(members)


def _may_be_node(kind: type) -> bool:
    """Whether leaves of JAX are saved as dicts, because JAX's registry lacks their class."""
    return issubclass(kind, Mapping) or hasattr(kind, "__dataclass_fields__")


def _open_leaves(
    paths: list[Path],
    leaves: list[Any],
    unflatten: Callable[[list[Any]], Any],
    empty_dicts: bool,
) -> tuple[list[Path], list[Any], Callable[[list[Any]], Any]]:
    """The leaves with those that are nodes replaced by what is below them."""
    nodes = {kind for kind in {type(leaf) for leaf in leaves} if _may_be_node(kind)}
    if not nodes:
        return paths, leaves, unflatten
    all_paths: list[Path] = []
    all_leaves: list[Any] = []
    parts: list[tuple[int, Callable[[list[Any]], Any]]] = []  # how many leaves make one of JAX
    for path, leaf in zip(paths, leaves, strict=True):
        is_node = type(leaf) in nodes and not hasattr(leaf, "dtype")
        if is_node and not (empty_dicts and is_empty_dict(leaf)):
            names, below, make = _below(leaf, empty_dicts)
        else:
            names, below, make = [()], [leaf], _only
        all_paths += [(*path, *name) for name in names]
        all_leaves += below
        parts.append((len(below), make))

    def rebuild(others: list[Any]) -> Any:
        following = iter(others)
        return unflatten([make([next(following) for _ in range(n)]) for n, make in parts])

    return all_paths, all_leaves, rebuild


def _only(leaves: list[Any]) -> Any:
    return leaves[0]


def _below(
    node: Any, empty_dicts: bool
) -> tuple[list[Path], list[Any], Callable[[list[Any]], Any]]:
    """Flattens one node that JAX does not know. Its children may be nodes of JAX."""
    import dataclasses

    is_mapping = isinstance(node, Mapping)
    keys = list(node) if is_mapping else [field.name for field in dataclasses.fields(node)]
    children = [node[key] if is_mapping else getattr(node, key) for key in keys]
    paths, leaves, unflatten = flatten(children, empty_dicts)

    def make(others: list[Any]) -> Any:
        made = dict(zip(keys, unflatten(others), strict=True))
        return mapping_like(node, made) if is_mapping else dataclasses.replace(node, **made)

    return [(str(keys[int(path[0])]), *path[1:]) for path in paths], leaves, make


def mapping_like(node: Any, made: dict[Any, Any]) -> Any:
    """A mapping of the type of another one, with other members."""
    if isinstance(node, defaultdict):
        return type(node)(node.default_factory, made)
    return type(node)(made)


def _map(
    node: Any, path: Path, leaf: Callable[[Path, Any], Any], is_leaf: Callable[[Any], bool]
) -> Any:
    kind = type(node)
    if kind is dict and (node or not is_leaf(node)):
        return {key: _map(child, (*path, str(key)), leaf, is_leaf) for key, child in node.items()}
    if hasattr(node, "dtype") or kind is int or kind is float:  # most leaves; the rest costs time
        return leaf(path, node)
    if node is None:
        return None
    if is_leaf(node):
        return leaf(path, node)
    if isinstance(node, Mapping):
        made = {key: _map(child, (*path, str(key)), leaf, is_leaf) for key, child in node.items()}
        return mapping_like(node, made)
    if isinstance(node, list | tuple):
        if hasattr(node, "_fields"):
            names = node._fields
            return type(node)(
                *(_map(c, (*path, n), leaf, is_leaf) for n, c in zip(names, node, strict=True))
            )
        items = [_map(child, (*path, str(i)), leaf, is_leaf) for i, child in enumerate(node)]
        return items if isinstance(node, list) else tuple(items)
    if hasattr(type(node), "__dataclass_fields__"):
        import dataclasses

        fields = {
            f.name: _map(getattr(node, f.name), (*path, f.name), leaf, is_leaf)
            for f in dataclasses.fields(node)
        }
        return dataclasses.replace(node, **fields)
    return leaf(path, node)


def path_text(path: Path) -> str:
    """A path for messages: "params.dense.kernel"."""
    return printable(".".join(path)) or "(the whole tree)"
