"""PyTreeCheckpointHandler: a BasePyTreeCheckpointHandler with transforms."""

import dataclasses
import time
from collections.abc import Callable
from typing import Any

from cairn.orbax._impl.base import events, monitoring, options
from cairn.orbax._impl.handlers import legacy_restore, pytree_restore
from cairn.orbax._impl.handlers.args import CheckpointArgs, register_with_handler
from cairn.orbax._impl.handlers.base_pytree_handler import (
    BasePyTreeCheckpointHandler,
    BasePyTreeRestoreArgs,
    BasePyTreeSaveArgs,
)
from cairn.orbax._impl.handlers.handler import AsyncCheckpointHandler
from cairn.orbax._impl.handlers.restore_by_names import restore_by_names
from cairn.orbax._impl.handlers.transformed_restore import restore_transformed
from cairn.orbax._impl.leaves.tree_metadata import TreeMetadata
from cairn.orbax._impl.paths.checkpoint_paths import TREE_METADATA_FILE, as_path
from cairn.orbax._impl.stored.stored_tree import (
    AGGREGATE_FILE,
    StoredTree,
    has_structure,
    values_in_file,
)
from cairn.orbax._impl.types.type_registry import global_registry

DEFAULT_CONCURRENT_GB = 96
LegacyTransformFn = Callable[[Any, Any, Any], tuple[Any, Any]]  # of item, structure and infos

_GB = 10**9


class PyTreeCheckpointHandler(AsyncCheckpointHandler):
    """Saves and restores a tree, with transforms; limits in gigabytes (10^9 bytes).

    Calls `handler_impl`, which the caller may give: an object of BasePyTreeCheckpointHandler or of
    a subclass. As in Orbax, it does everything but restores with transforms and restores of
    checkpoints of old versions, which have no file _METADATA.
    """

    _typestr = "orbax.checkpoint._src.handlers.pytree_checkpoint_handler.PyTreeCheckpointHandler"

    def __init__(
        self,
        aggregate_filename: "str | None" = None,
        *,
        save_concurrent_gb: "int | None" = None,
        restore_concurrent_gb: "int | None" = None,
        save_device_host_concurrent_gb: "int | str | None" = None,
        memory_limit_options: Any = None,
        use_ocdbt: bool = True,
        use_zarr3: bool = False,
        use_compression: bool = True,
        multiprocessing_options: "options.MultiprocessingOptions | None" = None,
        type_handler_registry: Any = None,
        handler_impl: "BasePyTreeCheckpointHandler | None" = None,
        pytree_metadata_options: Any = None,
        array_metadata_validator: Any = None,
        enable_pinned_host_transfer: "bool | None" = None,
        is_prioritized_key_fn: Any = None,
    ) -> None:
        self._aggregate_filename = aggregate_filename or AGGREGATE_FILE
        self._restore_concurrent_bytes = _bytes_of(restore_concurrent_gb, DEFAULT_CONCURRENT_GB)
        self._type_handler_registry = type_handler_registry
        self._use_ocdbt = use_ocdbt
        self._handler_impl = handler_impl or BasePyTreeCheckpointHandler(
            save_concurrent_bytes=_bytes_of(save_concurrent_gb, DEFAULT_CONCURRENT_GB),
            restore_concurrent_bytes=self._restore_concurrent_bytes,
            save_device_host_concurrent_bytes=_bytes_of(save_device_host_concurrent_gb),
            memory_limit_options=memory_limit_options,
            use_ocdbt=use_ocdbt,
            use_zarr3=use_zarr3,
            use_compression=use_compression,
            multiprocessing_options=multiprocessing_options,
            type_handler_registry=type_handler_registry,
            pytree_metadata_options=pytree_metadata_options,
            array_metadata_validator=array_metadata_validator,
            enable_pinned_host_transfer=enable_pinned_host_transfer,
            is_prioritized_key_fn=is_prioritized_key_fn,
        )

    async def async_save(
        self, directory: Any, item: Any = None, save_args: Any = None, args: Any = None
    ) -> "list[Any]":
        """Copies the arrays of a tree and starts to write them."""
        args = _base_save_args(item, save_args, args)
        futures: list[Any] = await self._handler_impl.async_save(directory, args=args)
        return futures

    def save(
        self, directory: Any, item: Any = None, save_args: Any = None, args: Any = None
    ) -> None:
        """Writes a tree and waits until that is done."""
        self._handler_impl.save(directory, args=_base_save_args(item, save_args, args))

    def restore(
        self,
        directory: Any,
        item: Any = None,
        restore_args: Any = None,
        transforms: Any = None,
        transforms_default_to_original: bool = True,
        legacy_transform_fn: Any = None,
        args: Any = None,
    ) -> Any:
        """Restores the tree: as stored, like a target, or through transforms."""
        if isinstance(item, CheckpointArgs):
            raise ValueError("give the arguments of a restore as args=...")
        if args is None:
            args = PyTreeRestoreArgs(
                item, restore_args, transforms, transforms_default_to_original, legacy_transform_fn
            )
        directory = as_path(directory)
        is_transformed = args.transforms is not None or args.legacy_transform_fn is not None
        has_types = (directory / TREE_METADATA_FILE).exists()
        file = self._aggregate_filename
        has_values = (directory / file).exists()
        if not self._use_ocdbt and not has_values:
            events.event("/jax/orbax/deprecation/inferred_structure")
        if is_transformed or not has_types or values_in_file(directory, file):
            if not has_types:
                events.event("/jax/orbax/deprecation/missing_metadata")
            if self._use_ocdbt and not has_values:
                events.event("/jax/orbax/deprecation/missing_structure")
            return self._restore_other(directory, args)
        base = BasePyTreeRestoreArgs(args.item, args.restore_args, args.partial_restore)
        return self._handler_impl.restore(directory, args=base)

    def _restore_other(self, directory: Any, args: "PyTreeRestoreArgs") -> Any:
        """Restores with transforms, or a checkpoint of an old version.

        Such a checkpoint has no _METADATA, or a msgpack file with values.
        """
        registry = self._type_handler_registry or global_registry()
        # Without any structure, the caller's target has the names of the arrays. Before OCDBT,
        # directories of arrays were the structure.
        is_guessed = args.item is not None or not self._use_ocdbt
        memory = self._restore_concurrent_bytes
        file = self._aggregate_filename
        stored = StoredTree(directory, memory, registry, not is_guessed, file)
        is_known = has_structure(directory, file) or not self._use_ocdbt
        begin = time.time()
        if args.legacy_transform_fn is not None:
            restored = legacy_restore.restore_by_function(stored, args, is_known)
        elif args.transforms is not None:
            restored = restore_transformed(stored, args, is_known)
        elif args.item is None:
            restored = pytree_restore.restore_stored(stored, args)
        elif is_known:
            restored = legacy_restore.restore_into(stored, args.item, args.restore_args)
        else:
            restored = restore_by_names(stored, args.item, args.restore_args)
        size = stored.reader.stored_nbytes()
        monitoring.tree_restored(restored, time.time() - begin, size, is_old=True)
        return restored

    def metadata(self, directory: Any) -> TreeMetadata:
        """The tree with metadata in place of its values."""
        return self._handler_impl.metadata(directory)

    def finalize(self, directory: Any) -> None:
        """Ends the write."""
        self._handler_impl.finalize(directory)

    def close(self) -> None:
        """Waits for writes."""
        self._handler_impl.close()


def _bytes_of(gigabytes: Any, default: "int | None" = None) -> Any:
    wanted = default if gigabytes is None else gigabytes
    return wanted if wanted is None or wanted == "auto" else int(wanted * _GB)


def _base_save_args(item: Any, save_args: Any, args: Any) -> BasePyTreeSaveArgs:
    if isinstance(item, CheckpointArgs):
        raise ValueError("give the arguments of a save as args=...")
    if args is None:
        args = PyTreeSaveArgs(item=item, save_args=save_args)
    return BasePyTreeSaveArgs(
        args.item, args.save_args, args.ocdbt_target_data_file_size, args.custom_metadata
    )


@register_with_handler(PyTreeCheckpointHandler, for_save=True)
@dataclasses.dataclass
class PyTreeSaveArgs(CheckpointArgs):
    """A tree to be saved, with SaveArgs for its leaves."""

    item: Any
    save_args: Any = None
    ocdbt_target_data_file_size: "int | None" = None
    custom_metadata: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.item, TreeMetadata):
            raise ValueError("Cannot save TreeMetadata.")


@register_with_handler(PyTreeCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class PyTreeRestoreArgs(CheckpointArgs):
    """How a tree is restored.

    item: the target, None for the stored structure. restore_args: RestoreArgs for its leaves.
    transforms: what the leaves are made of. partial_restore: what the target lacks is left out, and
    what is not stored keeps the target's value.
    """

    item: Any = None
    restore_args: Any = None
    transforms: Any = None
    transforms_default_to_original: bool = True
    legacy_transform_fn: Any = None
    partial_restore: bool = False

    def __post_init__(self) -> None:
        for name in ("item", "restore_args", "transforms"):
            value = getattr(self, name)
            if isinstance(value, TreeMetadata):
                setattr(self, name, value.tree)
