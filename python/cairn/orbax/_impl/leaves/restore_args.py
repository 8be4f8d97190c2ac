"""construct_restore_args: the arguments that restore a tree like a given one."""

from typing import Any

from cairn.orbax._impl.leaves.leaf_args import PLACEHOLDER, ArrayRestoreArgs, RestoreArgs
from cairn.orbax._impl.leaves.leaf_reads import is_key_dtype
from cairn.orbax._impl.leaves.shardings import concrete_sharding, has_layout, is_format
from cairn.orbax._impl.leaves.tree_metadata import (
    ArrayMetadata,
    ScalarMetadata,
    StringMetadata,
    TreeMetadata,
)


def leaf_restore_args(
    value: Any, sharding: Any, set_global_shape: bool = True, strict: bool = True
) -> RestoreArgs:
    """The arguments that restore a leaf like `value`. Raises ValueError for other leaves."""
    import jax
    import numpy as np

    value = _stored_array(value)
    if isinstance(value, StringMetadata):
        return RestoreArgs(restore_type=str)
    if isinstance(value, ScalarMetadata):
        kind = type(np.zeros((), value.dtype).item())  # int, float, bool or complex
        return RestoreArgs(restore_type=kind, dtype=value.dtype)
    if isinstance(value, jax.Array) or (
        isinstance(value, jax.ShapeDtypeStruct | ArrayMetadata) and sharding is not None
    ):
        # The sharding of a key is about the key, not about its data.
        shape = value.shape if set_global_shape and not is_key_dtype(value.dtype) else None
        return ArrayRestoreArgs(
            restore_type=jax.Array,
            sharding=_without_format(sharding),
            global_shape=shape,
            dtype=value.dtype,
            strict=strict,
        )
    if isinstance(value, jax.ShapeDtypeStruct | ArrayMetadata | np.ndarray):
        return RestoreArgs(restore_type=np.ndarray, dtype=value.dtype)
    if isinstance(value, int | float | str):
        return RestoreArgs(restore_type=type(value))
    if value is PLACEHOLDER:
        return RestoreArgs(restore_type=type(PLACEHOLDER))
    raise ValueError(f"Unsupported type: {type(value)}")


def _stored_array(value: Any) -> Any:
    """Returns the stored form of a leaf. Random keys are stored as their key data."""
    import jax

    if isinstance(value, jax.Array) and is_key_dtype(value.dtype):
        return jax.random.key_data(value)
    return value


def _without_format(sharding: Any) -> Any:
    """The sharding, which may be a stored one, unless it says a layout, too."""
    return sharding.sharding if is_format(sharding) and not has_layout(sharding) else sharding


def sharding_of(value: Any, support_layout: bool) -> Any:
    """Where a leaf lies, and in which layout if `support_layout`; None if it does not say."""
    if support_layout and has_layout(getattr(value, "format", None)):
        return value.format
    sharding = getattr(value, "sharding", None)
    return None if sharding is None else concrete_sharding(sharding)


def construct_restore_args(
    target: Any,
    sharding_tree: Any = None,
    set_global_shape: bool = True,
    support_layout: bool = False,
    strict: bool = True,
) -> Any:
    """A tree of RestoreArgs and ArrayRestoreArgs that restores a tree like the target.

    Args:
      target: a tree of arrays, numbers, strings, jax.ShapeDtypeStruct, or what metadata() returns.
      sharding_tree: shardings in place of the target's.
      set_global_shape: whether the arguments have the shapes of the target.
      support_layout: whether the arrays get the target's layouts in the devices' memory, too.
      strict: whether another stored shape is an error.

    Raises:
      ValueError: other leaves.
    """
    if isinstance(target, TreeMetadata):
        shardings = sharding_tree.tree if isinstance(sharding_tree, TreeMetadata) else sharding_tree
        tree = construct_restore_args(
            target.tree, shardings, set_global_shape, support_layout, strict
        )
        return TreeMetadata(tree=tree, custom_metadata=target.custom_metadata)
    import jax

    leaves, treedef = jax.tree_util.tree_flatten(target)
    leaves = [_stored_array(leaf) for leaf in leaves]
    if sharding_tree is None:
        shardings = [
            leaf.sharding if isinstance(leaf, ArrayMetadata) else sharding_of(leaf, support_layout)
            for leaf in leaves
        ]
    else:
        # None stands for no sharding, where JAX sees no leaf.
        shardings = treedef.flatten_up_to(sharding_tree)  # type: ignore[attr-defined]
    return treedef.unflatten(  # type: ignore[attr-defined]
        [
            leaf_restore_args(leaf, sharding, set_global_shape, strict)
            for leaf, sharding in zip(leaves, shardings, strict=True)
        ]
    )
