"""In which places the structures of two trees differ."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Diff(NamedTuple):
    """The values of two trees at one place. None stands for a missing key."""

    lhs: Any
    rhs: Any


def tree_difference(
    a: Any,
    b: Any,
    *,
    is_leaf: "Callable[[Any], bool] | None" = None,
    leaves_equal: "Callable[[Any, Any], bool] | None" = None,
) -> Any:
    """The places where two trees differ, as the part of the tree that leads to them.

    A Diff has two leaves that are not equal, two types of nodes, two (type, length) of sequences,
    or the value of a key that one tree lacks. A dict of the result has only keys that differ; an
    item of a sequence that does not differ is None.

    Args:
      a: a tree.
      b: another one.
      is_leaf: which nodes are leaves; those of JAX's registry by default.
      leaves_equal: whether two leaves are equal; by default, if their types are.

    Returns:
      None if nothing differs.
    """
    import jax

    at_leaf = is_leaf or (lambda node: jax.tree_util.all_leaves([node]))
    equal = leaves_equal or (lambda x, y: type(x) is type(y))

    def compare(x: Any, y: Any) -> Any:
        if at_leaf(x) and at_leaf(y):
            return None if equal(x, y) else Diff(x, y)
        if type(x) is not type(y):
            return Diff(type(x), type(y))
        if isinstance(x, list | tuple) and not hasattr(x, "_fields"):
            return compare_items(x, y)
        if isinstance(x, Mapping):
            return compare_keys(x, y) or None
        return compare_children(x, y)

    def compare_items(x: Any, y: Any) -> Any:
        if len(x) != len(y):
            return Diff((type(x), len(x)), (type(y), len(y)))
        found = [compare(*pair) for pair in zip(x, y, strict=True)]
        return type(x)(found) if any(item is not None for item in found) else None

    def compare_keys(x: "Mapping[Any, Any]", y: "Mapping[Any, Any]") -> "dict[Any, Any]":
        found = {key: compare(x[key], y[key]) if key in y else Diff(x[key], None) for key in x}
        found.update((key, Diff(None, y[key])) for key in y if key not in x)
        return {key: item for key, item in found.items() if item is not None}

    def compare_children(x: Any, y: Any) -> Any:
        flatten = jax.tree_util.tree_flatten_with_path
        of_x, structure = flatten(x, is_leaf=lambda node: node is not x)
        of_y, _ = flatten(y, is_leaf=lambda node: node is not y)
        found = compare_keys(dict(of_x), dict(of_y))
        if not found:
            return None
        return jax.tree_util.tree_unflatten(structure, [found.get(key) for key, _ in of_x])

    return compare(a, b)


__all__ = ["Diff", "tree_difference"]
