"""Reads leaves for type handlers."""

from typing import Any

from cairn.orbax._impl.leaves.leaf_args import ArrayRestoreArgs, RestoreArgs
from cairn.orbax._impl.leaves.leaf_reads import LeafReads
from cairn.orbax._impl.stored.stored_tree import StoredTree
from cairn.orbax._impl.types.batches import Batches
from cairn.orbax._impl.types.writes import NotHereError, directory_of


async def read_leaves(
    infos: Any, args: "list[RestoreArgs]", keeps_metadata: bool = True
) -> "list[Any]":
    """The values of leaves, read together with those of handlers that are called together.

    keeps_metadata: whether random keys are restored as such.
    """
    if not infos:
        return []
    limit = getattr(infos[0].byte_limiter, "max_bytes", None)
    entries = [
        (info.name, one, limit, keeps_metadata) for info, one in zip(infos, args, strict=True)
    ]
    first, values = await _batches.add(directory_of(infos[0]), entries)
    return list(values[first : first + len(entries)])


async def _read(directory: str, entries: "list[Any]") -> "list[Any]":
    stored = StoredTree(directory, entries[0][2])
    reads = LeafReads(stored)
    try:
        for name, args, _, keeps in entries:
            reads.add(stored.index(name), args, keeps)
    except KeyError as error:
        raise NotHereError(f"{directory}: {error}") from error
    return reads.run()


_batches = Batches(_read)


def cairn_args(kind: str, args: Any) -> RestoreArgs:
    """The arguments of either package, for a leaf of a kind: "array", "numpy", "scalar"..."""
    args = args or RestoreArgs()
    if kind == "scalar":
        return RestoreArgs(restore_type=args.restore_type or "scalar", dtype=args.dtype)
    if kind in ("string", "placeholder"):
        return RestoreArgs(restore_type=kind)
    if kind == "numpy":
        return RestoreArgs(restore_type="np.ndarray", dtype=args.dtype)
    if not hasattr(args, "mesh_axes"):
        return RestoreArgs(restore_type="jax.Array", dtype=args.dtype)
    sharding = args.sharding
    if hasattr(sharding, "to_jax_sharding"):
        sharding = sharding.to_jax_sharding()
    return ArrayRestoreArgs(
        restore_type="jax.Array",
        dtype=args.dtype,
        mesh=args.mesh,
        mesh_axes=args.mesh_axes,
        sharding=sharding,
        global_shape=args.global_shape,
        strict=args.strict,
    )
