"""Trees as plain containers, and as flat dicts."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from cairn._leaves import key_text
from cairn.orbax._impl.trees.pytrees import dotted, is_empty, is_empty_or_leaf, one_level

_Leaf = TypeVar("_Leaf")

# In annotations, as in Orbax.
PyTree: TypeAlias = Any
PyTreeKey: TypeAlias = Any
PyTreePath: TypeAlias = "tuple[Any, ...]"
PyTreeOf: TypeAlias = Any | _Leaf  # PyTreeOf[jax.Array]
JsonType: TypeAlias = "list[Any] | dict[str, Any]"


def get_key_name(key: Any) -> Any:
    """The name or number of one key of JAX's paths."""
    for attribute in ("key", "idx", "name"):
        if hasattr(key, attribute):
            return getattr(key, attribute)
    raise ValueError(f"Unsupported KeyEntry: {type(key)}: '{key}'")


def tuple_path_from_keypath(keypath: "tuple[Any, ...]") -> "tuple[str, ...]":
    """The keys of a path as strings."""
    return tuple(key_text(key) for key in keypath)


str_keypath = tuple_path_from_keypath


def is_sequence_key(key: Any) -> bool:
    """Whether a key is the number of an item."""
    return hasattr(key, "idx")


def is_dict_key(key: Any) -> bool:
    """Whether a key is that of a dict, or a name."""
    return hasattr(key, "name") or isinstance(getattr(key, "key", None), str)


def is_flat_dict(tree: Any) -> bool:
    """Whether a tree is a dict of leaves."""
    import jax

    return isinstance(tree, dict) and all(
        jax.tree_util.all_leaves([value]) for value in tree.values()
    )


def from_flattened_with_keypath(flat_with_keys: "list[tuple[tuple[Any, ...], Any]]") -> Any:
    """A tree of dicts and lists of what jax.tree_util.tree_flatten_with_path returns."""
    if not flat_with_keys:
        raise ValueError("Unable to uniquely reconstruct tree from empty flattened keypath list.")
    if not flat_with_keys[0][0]:
        return flat_with_keys[0][1]
    root: Any = [] if is_sequence_key(flat_with_keys[0][0][0]) else {}
    for path, value in flat_with_keys:
        node = root
        for key, following in zip(path, [*path[1:], None], strict=True):
            name = get_key_name(key)
            missing = len(node) <= name if isinstance(node, list) else name not in node
            if missing:
                child: Any = value
                if following is not None:
                    child = [] if is_sequence_key(following) else {}
                if isinstance(node, list):
                    node.append(child)
                else:
                    node[name] = child
            node = node[-1] if isinstance(node, list) and missing else node[name]
    return root


def serialize_tree(tree: Any, keep_empty_nodes: bool = False) -> Any:
    """The tree as dicts and lists: tuples become lists, other containers dicts."""
    import jax

    is_leaf = is_empty_or_leaf if keep_empty_nodes else None
    pairs, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_leaf)
    return from_flattened_with_keypath(pairs)


def _child_by_key(node: Any, key: Any) -> Any:
    """The child of a node that is not a dict, list or tuple. KeyError if it has no such child."""
    import jax

    try:
        if isinstance(key, jax.tree_util.GetAttrKey):
            return getattr(node, key.name)
        if isinstance(key, jax.tree_util.FlattenedIndexKey):
            return one_level(node)[0][key.key]
        return node[get_key_name(key)]
    except (AttributeError, IndexError) as error:
        raise KeyError(f"Key {key!r} not found in {node!r}") from error


def deserialize_tree(serialized: Any, target: Any, keep_empty_nodes: bool = False) -> Any:
    """The leaves of dicts and lists in the structure of the target. KeyError if one lacks."""
    import jax

    def look_up(path: Any, _: Any) -> Any:
        node = serialized
        for key in path:
            if type(node) not in (dict, list, tuple):
                node = _child_by_key(node, key)
                continue
            name = get_key_name(key)
            node = node[str(name) if isinstance(node, dict) and name not in node else name]
        return node

    is_leaf = is_empty_or_leaf if keep_empty_nodes else None
    return jax.tree_util.tree_map_with_path(look_up, target, is_leaf=is_leaf)


def to_flat_dict(
    tree: Any,
    sep: "str | None" = None,
    keep_empty_nodes: bool = False,
    is_leaf: "Callable[[Any], bool] | None" = None,
) -> "dict[Any, Any]":
    """The leaves by their path: a tuple of strings, or one string with separators."""
    import jax

    chosen = is_leaf or (is_empty_or_leaf if keep_empty_nodes else None)
    pairs, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=chosen)
    paths = [tuple_path_from_keypath(path) for path, _ in pairs]
    keys = paths if sep is None else [sep.join(path) for path in paths]
    return {key: value for key, (_, value) in zip(keys, pairs, strict=True)}


def from_flat_dict(
    flat_dict: "dict[Any, Any]",
    target: Any = None,
    sep: "str | None" = None,
    *,
    inplace: bool = False,
) -> Any:
    """The tree of a flat dict: in the structure of the target, or as nested dicts."""
    import jax

    take = flat_dict.pop if inplace else flat_dict.__getitem__
    if target is not None:

        def look_up(path: Any, _: Any) -> Any:
            texts = tuple_path_from_keypath(path)
            return take(texts if sep is None else sep.join(texts))

        return jax.tree_util.tree_map_with_path(look_up, target)
    if sep is None and () in flat_dict:  # the tree is one leaf
        if len(flat_dict) > 1:
            raise ValueError(f"Empty keypath () must be the only key; got {list(flat_dict)}.")
        return take(())
    tree: dict[Any, Any] = {}
    for key in list(flat_dict):
        assert sep is not None or isinstance(key, tuple), f"{key!r} is not a tuple: give sep"
        path = key if sep is None else tuple(key.split(sep))
        node = tree
        for part in path[:-1]:
            node = node.setdefault(part, {})
        assert path[-1] not in node, f"{key!r} is there twice"
        node[path[-1]] = take(key)
    return tree


def get_param_names(item: Any, *, include_empty_nodes: bool = True) -> Any:
    """The tree with each leaf's name, "a.b.0", in its place."""
    import jax

    return jax.tree_util.tree_map_with_path(
        lambda path, _: dotted(tuple_path_from_keypath(path)) if path else "",
        item,
        is_leaf=is_empty_or_leaf if include_empty_nodes else None,
    )


def is_empty_node(x: Any) -> bool:
    """Whether a value is None or an empty container."""
    return is_empty(x)
