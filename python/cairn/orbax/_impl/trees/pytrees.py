"""Paths and leaves of the caller's trees, by JAX's registry."""

from collections.abc import Callable
from typing import Any, TypeVar

from cairn._leaves import key_text

Path = tuple[str, ...]
Args = TypeVar("Args")


_leaf_types: set[type] = set()  # which never are nodes; to ask JAX for each leaf takes time


def is_empty(node: Any) -> bool:
    """Whether a node is None, or a container of JAX's registry that has no children."""
    if node is None:
        return True
    if type(node) in _leaf_types:
        return False
    if isinstance(node, dict | list | tuple):
        return len(node) == 0
    import jax

    if not jax.tree_util.all_leaves([node]):
        return not one_level(node)[0]
    # A program may still register a class of its own.
    if type(node).__module__.partition(".")[0] in ("builtins", "numpy", "jax", "jaxlib"):
        _leaf_types.add(type(node))
    return False


def has_no_leaves(tree: Any) -> bool:
    """Whether a tree consists of None and containers only."""
    import jax

    return not jax.tree_util.tree_leaves(tree)


def one_level(node: Any) -> "tuple[list[Any], Any]":
    """The children of a node of JAX's registry, and the structure that makes it again."""
    import jax

    return jax.tree_util.tree_flatten(node, is_leaf=lambda child: child is not node)


def flatten(
    tree: Any, is_leaf: "Callable[[Any], bool] | None" = is_empty
) -> "tuple[list[Path], list[Any], Any]":
    """Paths and leaves of a tree, and the structure that makes it again."""
    import jax

    pairs, treedef = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_leaf)
    paths = [tuple(key_text(key) for key in path) for path, _ in pairs]
    return paths, [leaf for _, leaf in pairs], treedef


def flatten_with_keys(tree: Any) -> "tuple[list[tuple[Any, Any]], Any]":
    """Key paths of JAX and leaves of a tree, and the structure that makes it again."""
    import jax

    pairs, treedef = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_empty)
    return pairs, treedef


def path_of(keys: Any) -> Path:
    """The path of a key path of JAX."""
    return tuple(key_text(key) for key in keys)


def by_path(tree: Any) -> "dict[Path, Any]":
    """The leaves of a tree by their path; None and empty containers have none."""
    paths, leaves, _ = flatten(tree, None)
    return dict(zip(paths, leaves, strict=True))


def arguments_by_path(
    tree: Any, what: str, convert: "Callable[[Any], Args | None]", type_name: str
) -> "dict[Path, Args]":
    """The arguments of leaves by their path. `convert` makes them of a leaf; None: of another type.

    Raises ValueError, naming the place, for a leaf of another type.
    """
    result = {}
    for path, given in by_path(tree).items():
        args = convert(given)
        if args is None:
            raise ValueError(f"{dotted(path)}: {what} has {given!r}, not {type_name}")
        result[path] = args
    return result


def dotted(path: Path) -> str:
    """A path for messages."""
    return ".".join(path) or "(the whole tree)"


def is_empty_or_leaf(x: Any) -> bool:
    """Whether a node is an empty value or a leaf of JAX's registry."""
    import jax

    return is_empty(x) or jax.tree_util.all_leaves([x])
