"""SaveArgs and RestoreArgs of a caller, matched with a tree. The errors are Orbax's."""

import contextlib
from collections.abc import Iterator
from typing import Any

from cairn.orbax._impl.leaves.leaf_args import (
    DEFAULT_RESTORE_ARGS,
    RestoreArgs,
    SaveArgs,
    restore_args_of,
    save_args_of,
)
from cairn.orbax._impl.trees import pytrees
from cairn.orbax._impl.trees.plain import serialize_tree
from cairn.orbax._impl.trees.pytrees import Path
from cairn.orbax._impl.trees.trim import tree_trim

_RESTORE_ARGS_DIFFER = "restore_args do not have the structure of the restored tree"


def arguments_like(target: Any, given: Any) -> "dict[Path, RestoreArgs]":
    """The arguments of leaves by their path.

    Args:
      target: the tree that is restored.
      given: None, or a tree with the containers of the target. A leaf of the target may have None,
        which stands for RestoreArgs().

    Raises:
      ValueError: the containers differ, or a leaf is not RestoreArgs.
    """
    if given is None:
        return {}
    _check_containers(target, given, _RESTORE_ARGS_DIFFER)
    return arguments_by_path(given)


def leaf_arguments(treedef: Any, target: Any, given: Any) -> "list[RestoreArgs]":
    """Like arguments_like(), but returns a list in the order of the target's leaves.

    treedef: that of pytrees.flatten(target).
    """
    if given is None:
        return [DEFAULT_RESTORE_ARGS] * int(treedef.num_leaves)
    with _named_mismatch(_RESTORE_ARGS_DIFFER):
        parts = treedef.flatten_up_to(given)
    made = [None if part is None else restore_args_of(part) for part in parts]
    if all(args is not None or part is None for args, part in zip(made, parts, strict=True)):
        return [args or DEFAULT_RESTORE_ARGS for args in made]
    by_path = arguments_by_path(given)  # raises, unless it is a container: its leaves do not count
    paths, _, _ = pytrees.flatten(target)
    return [by_path.get(path, DEFAULT_RESTORE_ARGS) for path in paths]


def save_arguments_like(tree: Any, given: Any) -> "dict[Path, SaveArgs]":
    """Returns the SaveArgs of each leaf of the tree that is saved."""
    if given is None:
        return {}
    _check_containers(tree, given, "save_args do not have the structure of the saved tree")
    return pytrees.arguments_by_path(given, "save_args", save_args_of, "SaveArgs")


def _check_containers(tree: Any, given: Any, message: str) -> None:
    import jax

    treedef: Any = jax.tree_util.tree_structure(tree, is_leaf=pytrees.is_empty)
    with _named_mismatch(message):
        treedef.flatten_up_to(given)


@contextlib.contextmanager
def _named_mismatch(message: str) -> "Iterator[None]":
    try:
        yield
    except ValueError as error:
        raise ValueError(f"{message}: {error}") from error


def arguments_by_path(given: Any) -> "dict[Path, RestoreArgs]":
    """The arguments of leaves by their path. Raises ValueError if a leaf is not RestoreArgs."""
    return pytrees.arguments_by_path(given, "restore_args", restore_args_of, "RestoreArgs")


def trimmed(target: Any, given: Any) -> Any:
    """The arguments without those of leaves that a target of a partial restore lacks.

    Raises ValueError if they lack a key of the target, and TypeError if a container has another
    type.
    """
    return None if given is None else tree_trim(target, given)


def check_parts(target: Any, structure: Any) -> None:
    """Raises unless a target of a partial restore has the containers of the stored tree.

    Keys may be missing on both sides. Raises TypeError for a container over a leaf, the reverse,
    and an empty container over one with children; ValueError for sequences of another length.
    """
    tree_trim(_plain(target), _plain(structure), strict=False)


def _plain(tree: Any) -> Any:
    """The tree of dicts, lists and leaves. Empty containers are leaves, as they are stored."""
    import jax

    leaves = jax.tree_util.tree_map(
        lambda node: 0 if node is not None and pytrees.is_empty(node) else node,
        tree,
        is_leaf=pytrees.is_empty_or_leaf,
    )
    return serialize_tree(leaves, keep_empty_nodes=True)
