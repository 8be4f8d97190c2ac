"""The arguments that restore a tree as it was saved, arrays of JAX on the devices they were on."""

import dataclasses
import functools
from typing import Any

from cairn._leaves import item_value
from cairn.orbax._impl.leaves.leaf_args import RestoreArgs
from cairn.orbax._impl.leaves.restore_args import leaf_restore_args
from cairn.orbax._impl.leaves.shardings import from_serialized_string
from cairn.orbax._impl.leaves.tree_metadata import ArrayMetadata, TreeMetadata, leaf_description
from cairn.orbax._impl.stored.stored_tree import StoredTree
from cairn.orbax._impl.types.own_restores import own_metadata

_NEVER_PLACED = ("np.ndarray", "scalar", "string")  # types of leaves that have no sharding


@dataclasses.dataclass
class AsPlaced:
    """In place of a tree of RestoreArgs, which would need the metadata of the tree first.

    fallback_sharding: for arrays whose stored placement is not possible here. strict: as in
    ArrayRestoreArgs.
    """

    fallback_sharding: Any = None
    strict: bool = True


def args_as_placed(stored: StoredTree, how: AsPlaced) -> "dict[int, RestoreArgs]":
    """The arguments of all leaves but empty nodes.

    Raises ValueError if the tree is None, or if the devices of an array are not here and there is
    no fallback.
    """
    if stored.structure() == 0 and stored.is_empty(0):
        TreeMetadata(tree=item_value(stored.reader, 0))  # raises for None
    own = own_metadata(stored)
    parsed = functools.cache(from_serialized_string)
    shardings: dict[int, Any] = {}  # of JAX, by the stored one
    shared: dict[Any, RestoreArgs] = {}  # of leaves that have no sharding, by their type
    result: dict[int, RestoreArgs] = {}
    for index, kind in enumerate(stored.types):
        if kind in shared:
            result[index] = shared[kind]
            continue
        if kind[0] == "empty":
            continue
        leaf = own.get(index)
        if index not in own:
            leaf = leaf_description(stored, index, sharding_of=parsed)
        at = id(getattr(leaf, "sharding", None))
        if at not in shardings:
            shardings[at] = stored_sharding(leaf, how.fallback_sharding)
        result[index] = leaf_restore_args(leaf, shardings[at], strict=how.strict)
        if index not in own and kind[1] in _NEVER_PLACED:
            shared[kind] = result[index]
    return result


def stored_sharding(leaf: Any, fallback: Any) -> Any:
    """Where a leaf lay when it was saved, by its metadata; None if they do not say.

    Raises ValueError if its devices are not here and there is no fallback.
    """
    if not isinstance(leaf, ArrayMetadata) or leaf.sharding is None:
        return None
    try:
        return leaf.sharding.to_jax_sharding()
    except ValueError as error:
        if fallback is not None:
            return fallback
        raise ValueError(
            f"{leaf.name}: Topology mismatch detected: it was saved on devices that are not "
            f"here ({error}); give a target with shardings, or fallback_sharding"
        ) from error
