"""Placeholders of leaves in the msgpack file of old versions: the arrays are stored elsewhere."""

from typing import Any

from cairn.orbax._impl.paths.checkpoint_paths import TREE_METADATA_FILE, as_path
from cairn.orbax._impl.stored.stored_tree import ARRAY_METADATA_FOLDER, PLACEHOLDER_PREFIX

_NOT_ARRAYS = ("_sharding", TREE_METADATA_FILE, ARRAY_METADATA_FOLDER)


def leaf_is_placeholder(leaf: Any) -> bool:
    """Whether a leaf stands for one that is stored elsewhere."""
    return isinstance(leaf, str) and leaf.startswith(PLACEHOLDER_PREFIX)


def all_leaves_are_placeholders(tree: Any) -> bool:
    """Whether every leaf of a tree stands for one that is stored elsewhere."""
    import jax

    return all(leaf_is_placeholder(leaf) for leaf in jax.tree_util.tree_leaves(tree))


def leaf_placeholder(name: str) -> str:
    """Returns the placeholder of a leaf of this name."""
    return f"{PLACEHOLDER_PREFIX}{name}"


def name_from_leaf_placeholder(placeholder: str) -> str:
    """The name that a placeholder stands for. Raises ValueError for anything else."""
    if not leaf_is_placeholder(placeholder):
        raise ValueError("Requested name from placeholder, but value was not a placeholder.")
    return placeholder.removeprefix(PLACEHOLDER_PREFIX)


def pytree_structure(directory: Any) -> "dict[str, Any]":
    """A nested dict of placeholders for the arrays that are directories, split at the dots."""
    tree: dict[str, Any] = {}
    for child in as_path(directory).iterdir():
        if child.name in _NOT_ARRAYS:
            continue
        *parents, last = child.name.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = leaf_placeholder(child.name)
    return tree
