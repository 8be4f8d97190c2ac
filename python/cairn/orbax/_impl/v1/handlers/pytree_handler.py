"""PyTreeHandler: trees of arrays, numbers and text."""

import asyncio
import os
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any, ClassVar

from cairn.orbax._impl.handlers import pytree_restore
from cairn.orbax._impl.handlers.base_pytree_handler import (
    BasePyTreeCheckpointHandler,
    BasePyTreeRestoreArgs,
    BasePyTreeSaveArgs,
)
from cairn.orbax._impl.leaves.leaf_args import SaveArgs
from cairn.orbax._impl.leaves.tree_metadata import (
    ScalarMetadata,
    StringMetadata,
)
from cairn.orbax._impl.paths.checkpoint_paths import OCDBT_MANIFEST
from cairn.orbax._impl.stored.stored_tree import StoredTree
from cairn.orbax._impl.trees import pytrees
from cairn.orbax._impl.types.own_restores import tree_metadata_of
from cairn.orbax._impl.types.standard_types import ArrayHandler
from cairn.orbax._impl.types.type_registry import TypeHandlerRegistry, default_types
from cairn.orbax._impl.v1.array_options import ArrayOptions
from cairn.orbax._impl.v1.checks import check_options
from cairn.orbax._impl.v1.handlers import leaf_types
from cairn.orbax._impl.v1.handlers.handler_types import CheckpointableHandler, PathAwaitingCreation
from cairn.orbax._impl.v1.settings import current_settings

if TYPE_CHECKING:
    from cairn.orbax._impl.v1.context import Context


class PyTreeHandler(CheckpointableHandler[Any, Any]):
    """Saves and loads a tree whose leaves are arrays of JAX and NumPy, numbers and str."""

    _typestr: ClassVar[str] = (
        "orbax.checkpoint.experimental.v1._src.handlers.pytree_handler.PyTreeHandler"
    )

    def __init__(
        self,
        *,
        context: "Context | None" = None,
        array_metadata_validator: Any = None,
        leaf_handler_registry: Any = None,
        partial_save_mode: bool = False,
    ) -> None:
        if array_metadata_validator is not None:
            raise NotImplementedError("array_metadata_validator: one process writes each array")
        if leaf_handler_registry is not None:
            raise NotImplementedError(
                "leaf_handler_registry: leaves of your own types are saved by a "
                "CheckpointableHandler"
            )
        self._context = check_options(context or current_settings())
        self._is_part = partial_save_mode

    async def save(self, directory: PathAwaitingCreation, checkpointable: Any) -> "Awaitable[None]":
        """Copies the arrays of a tree and starts to write them."""
        leaf_types.check_stored_types(checkpointable)
        saving = self._context.array.saving
        handler = BasePyTreeCheckpointHandler(
            save_concurrent_bytes=self._context.memory.write_concurrent_bytes,
            use_ocdbt=saving.use_ocdbt,
            use_zarr3=saving.use_zarr3,
            use_compression=saving.use_compression,
            enable_post_merge_validation=saving.enable_post_merge_validation,
            pytree_metadata_options=self._context.pytree.saving.pytree_metadata_options,
            type_handler_registry=_registry(saving),
        )
        path = await directory.await_creation()
        args = BasePyTreeSaveArgs(
            checkpointable,
            _save_args(checkpointable, saving),
            saving.ocdbt_target_data_file_size,
        )
        return self._finish(handler, path, await handler.async_save(path, args=args))

    async def _finish(self, handler: Any, path: Any, futures: "list[Any]") -> None:
        for future in futures:
            await asyncio.to_thread(future.result)
        if self._is_part:
            _set_database_apart(path)
        else:
            await asyncio.to_thread(handler.finalize, path)
        handler.close()

    async def load(self, directory: Any, abstract_checkpointable: Any = None) -> "Awaitable[Any]":
        """Loads a tree: as stored, or like a target."""
        leaf_types.check_target(abstract_checkpointable, leaf_types.UnregisteredTypeError)
        return self._load(directory, abstract_checkpointable)

    async def _load(self, directory: Any, target: Any) -> Any:
        import jax

        stored = StoredTree(directory, self._context.memory.read_concurrent_bytes)
        strict = not self._context.array.loading.enable_padding_and_truncation
        _check_text(stored, target)
        args = BasePyTreeRestoreArgs(
            target,
            jax.tree_util.tree_map(lambda leaf: leaf_types.restore_args_for(leaf, strict), target),
            partial_restore=self._context.pytree.loading.partial_load,
        )
        return pytree_restore.restore_stored(stored, args)

    async def metadata(self, directory: Any) -> Any:
        """The tree with ArrayMetadata, NumpyMetadata, 0, 0.0, False and "string" as leaves."""
        import jax

        stored = StoredTree(directory)
        types = {info.name: info.typestr for info in stored.infos}
        tree = tree_metadata_of(stored).tree
        return jax.tree_util.tree_map(lambda leaf: _leaf_metadata(leaf, types), tree)

    def is_handleable(self, checkpointable: Any) -> bool:
        """Whether all leaves are of known types."""
        try:
            leaf_types.check_stored_types(checkpointable)
        except Exception:  # also what a node of the caller's raises
            return False
        return True

    def is_abstract_handleable(self, abstract_checkpointable: Any) -> bool:
        """Whether all leaves stand for something."""
        try:
            leaf_types.check_target(abstract_checkpointable)
        except Exception:  # also what a node of the caller's raises
            return False
        return True

    def validate_leaves_handleable(self, checkpointable: Any) -> None:
        """Raises UnregisteredTypeError for a leaf that cannot be stored."""
        leaf_types.check_stored_types(checkpointable)

    def validate_abstract_leaves_handleable(self, abstract_checkpointable: Any) -> None:
        """Raises UnregisteredTypeError for a leaf of a target that stands for nothing."""
        leaf_types.check_target(abstract_checkpointable, leaf_types.UnregisteredTypeError)


def _registry(saving: Any) -> TypeHandlerRegistry:
    """Returns the standard handlers. The array handler has the options of ArrayOptions.Saving."""
    import jax

    arrays = ArrayHandler(
        use_replica_parallel=saving.use_replica_parallel,
        min_slice_bytes_for_replica_parallel=saving.min_slice_bytes_for_replica_parallel,
        max_replicas_for_replica_parallel=saving.max_replicas_for_replica_parallel,
        enable_replica_parallel_separate_folder=saving.enable_replica_parallel_separate_folder,
        enable_write_sharding_file=saving.enable_write_sharding_file,
        array_metadata_store=saving.array_metadata_store,
    )
    registry = TypeHandlerRegistry(*default_types())
    registry.add(jax.Array, arrays, override=True)
    return registry


def _save_args(tree: Any, saving: Any) -> Any:
    """The SaveArgs of each leaf: what is chosen for it, else what is chosen for all."""
    import jax

    general = saving.storage_options or ArrayOptions.Saving.StorageOptions()
    choose = saving.scoped_storage_options_creator

    def one(path: Any, leaf: Any) -> SaveArgs:
        own = (
            choose(path, leaf) if choose is not None else None
        ) or ArrayOptions.Saving.StorageOptions()
        chosen = {
            name: getattr(own, name) if getattr(own, name) is not None else getattr(general, name)
            for name in ("dtype", "chunk_byte_size", "shard_axes")
        }
        return SaveArgs(**{**chosen, "shard_axes": tuple(chosen["shard_axes"] or ())})

    return jax.tree_util.tree_map_with_path(one, tree)


def _set_database_apart(path: Any) -> None:
    """Moves the database to where Orbax looks for parts that are to be merged."""
    if (path / OCDBT_MANIFEST).exists():
        apart = path / "ocdbt.process_0"
        os.mkdir(apart)
        for name in (OCDBT_MANIFEST, "d"):
            if (path / name).exists():
                os.rename(path / name, apart / name)


def _check_text(stored: StoredTree, target: Any) -> None:
    """Raises ValueError where text is stored and the target wants none, and the reverse."""
    for path, leaf in pytrees.by_path(target).items():
        index = stored.by_path.get(path)
        if index is None or leaf is ... or stored.is_empty(index):
            continue
        cls = leaf if isinstance(leaf, type) else type(leaf)
        if (stored.infos[index].kind == "string") != issubclass(cls, str):
            found = "text" if stored.infos[index].kind == "string" else "an array or a number"
            raise ValueError(
                f"{stored.directory}: {pytrees.dotted(path)} is {found}, and the target has {cls}"
            )


def _leaf_metadata(leaf: Any, types: "dict[str, str]") -> Any:
    import numpy as np

    if isinstance(leaf, StringMetadata):
        return "string"
    if isinstance(leaf, ScalarMetadata):
        if leaf.dtype == np.bool_:
            return False
        return 0.0 if np.issubdtype(leaf.dtype, np.floating) else 0
    if types.get(leaf.name) == "np.ndarray":
        return leaf_types.NumpyMetadata(leaf.shape, leaf.dtype, leaf.storage)
    return leaf_types.ArrayMetadata(leaf.shape, leaf.dtype, leaf.sharding, leaf.storage)
