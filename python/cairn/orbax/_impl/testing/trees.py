"""Trees of arrays for tests."""

from collections.abc import Sequence
from typing import Any

from cairn.orbax._impl.base.replica_parts import written_shape
from cairn.orbax._impl.handlers.composite_handler import CompositeArgs
from cairn.orbax._impl.handlers.pytree_handler import PyTreeSaveArgs
from cairn.orbax._impl.leaves.leaf_args import SingleReplicaArrayRestoreArgs
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.stored.zarr_metadata import ZarrMetadata
from cairn.orbax._impl.types.kvstore_specs import (
    ZARR_VER2,
    ZARR_VER3,
    build_kvstore_tspec,
    get_ts_context,
)
from cairn.orbax._impl.types.type_handler import ParamInfo


def is_leaf(x: Any) -> bool:
    """Whether a value is an array of NumPy, a mesh, a PartitionSpec or a ParamInfo."""
    import jax
    import numpy as np

    kinds = (np.ndarray, jax.sharding.Mesh, jax.sharding.PartitionSpec, ParamInfo)
    return isinstance(x, kinds)


def setup_pytree(add: int = 0) -> "dict[str, Any]":
    """Four arrays of int64: of shapes (8,) and (16,), and in "c" (2, 4) and (4, 4)."""
    import numpy as np

    return {
        "a": np.arange(8) + add,
        "b": np.arange(16) * 2 + add,
        "c": {
            "a": np.arange(8).reshape(2, 4) * 3 + add,
            "e": np.arange(16).reshape(4, 4) * 4 + add,
        },
    }


def setup_sharded_pytree(
    pytree: Any = None, reverse_devices: bool = False, devices: "list[Any] | None" = None
) -> "tuple[Any, Any, Any]":
    """A tree of the structure of setup_pytree() as arrays of JAX, its meshes and PartitionSpecs.

    "a" is replicated, "b" is split along one axis of all devices, and the arrays of "c" along two:
    the first has two devices. The number of devices is even.
    """
    import jax
    import numpy as np

    given = jax.devices() if devices is None else devices
    chosen = np.asarray(list(reversed(given)) if reverse_devices else list(given))
    spec: Any = jax.sharding.PartitionSpec
    line = jax.sharding.Mesh(chosen, ("x",))
    grid = jax.sharding.Mesh(chosen.reshape(2, -1), ("x", "y"))
    meshes = {"a": line, "b": line, "c": {"a": grid, "e": grid}}
    axes = {"a": spec(None), "b": spec("x"), "c": {"a": spec("x", "y"), "e": spec("x", "y")}}
    tree = setup_pytree() if pytree is None else pytree
    return (
        jax.tree_util.tree_map(create_sharded_array, tree, meshes, axes, is_leaf=is_leaf),
        meshes,
        axes,
    )


def create_sharded_array(arr: Any, mesh: Any, mesh_axes: Any) -> Any:
    """The array, or number, of jax on the devices of a mesh; mesh_axes: a PartitionSpec."""
    import jax
    import numpy as np

    array = np.asarray(arr)
    sharding = jax.sharding.NamedSharding(mesh, mesh_axes)
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def replicate_sharded_array(arr: Any) -> Any:
    """The array on all devices."""
    import jax
    import numpy as np

    mesh = jax.sharding.Mesh(np.asarray(jax.devices()), ("x",))
    axes: Any = jax.sharding.PartitionSpec
    everywhere = jax.sharding.NamedSharding(mesh, axes(None))
    return jax.jit(lambda array: array, out_shardings=everywhere)(arr)


def create_single_replica_restore_args(
    arr: Any, mesh: Any, pspec: Any
) -> SingleReplicaArrayRestoreArgs:
    """Arguments that restore an array like `arr` to the devices of a mesh."""
    import jax

    return SingleReplicaArrayRestoreArgs(
        sharding=jax.sharding.NamedSharding(mesh, pspec), global_shape=arr.shape, dtype=arr.dtype
    )


def filter_metadata_fields(pytree: Any, include_fields: "Sequence[str]") -> Any:
    """The tree with a dict of these attributes in place of each leaf, as far as it has them."""
    import jax

    def chosen(leaf: Any) -> "dict[str, Any]":
        return {name: getattr(leaf, name) for name in include_fields if hasattr(leaf, name)}

    return jax.tree_util.tree_map(chosen, pytree)


def get_composite_save_args(pytree: Any) -> CompositeArgs:
    """Arguments that save a tree as the item "state"."""
    return CompositeArgs(state=PyTreeSaveArgs(pytree))


def get_expected_chunk_shape(
    arr: Any,
    *,
    use_replica_parallel: bool = True,
    max_replicas_for_replica_parallel: "int | None" = None,
    pathways_support_replica_parallel: bool = False,
) -> "tuple[int, ...]":
    """The shape of the pieces of an array that are written whole.

    Args:
      arr: the array.
      use_replica_parallel: whether replicas share the writing of what they all have.
      max_replicas_for_replica_parallel: how many of them do at most; None: all.
      pathways_support_replica_parallel: no effect.
    """
    return written_shape(arr, use_replica_parallel, max_replicas_for_replica_parallel)


def is_compression_used(
    checkpoint_directory: Any, param_name: str, use_zarr3: bool, use_ocdbt: bool
) -> bool:
    """Whether the chunks of an array are compressed. Needs the package tensorstore.

    Args:
      checkpoint_directory: the directory of the tree.
      param_name: the name of the array in it.
      use_zarr3: whether it is stored in version 3 of Zarr.
      use_ocdbt: whether the directory has a database.

    Raises ValueError if there is no such array.
    """
    import tensorstore

    store = build_kvstore_tspec(str(as_path(checkpoint_directory)), param_name, use_ocdbt=use_ocdbt)
    driver = ZARR_VER3 if use_zarr3 else ZARR_VER2
    spec = {"driver": driver, "kvstore": store}
    opened: Any = tensorstore.open(spec, context=get_ts_context(use_ocdbt=use_ocdbt)).result()
    found = ZarrMetadata.from_json(opened.spec().to_json()["metadata"])
    return found is not None and found.compression is not None
