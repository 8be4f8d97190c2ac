"""PyTreeCheckpointHandler: trees with all its options. Written by the native part."""

import dataclasses
import json
import os
from typing import Any

from cairn import _cairn
from cairn.orbax import options
from cairn.orbax._impl import processes, pytree_restore, time_limits, trees
from cairn.orbax._impl.args import CheckpointArgs, register_with_handler
from cairn.orbax._impl.handler import NativeHandler
from cairn.orbax._impl.leaves.leaf_args import SaveArgs, save_args_of
from cairn.orbax._impl.stored_tree import Path, StoredTree
from cairn.orbax._impl.tree_metadata import TreeMetadata, tree_metadata_of
from cairn.orbax._impl.types.native_future import NativeFuture
from cairn.orbax._impl.types.own_leaves import NamingFuture, OwnLeaves
from cairn.orbax._impl.types.type_registry import global_registry

_ORBAX = "orbax.checkpoint._src.handlers"
_GB = 10**9


@dataclasses.dataclass
class PyTreeMetadataOptions:
    """support_rich_types: tuples and named tuples come back as such, without a target."""

    support_rich_types: bool = False


class BasePyTreeCheckpointHandler(NativeHandler):
    """Saves and restores a tree; limits in bytes."""

    _typestr = f"{_ORBAX}.base_pytree_checkpoint_handler.BasePyTreeCheckpointHandler"

    def __init__(
        self,
        *,
        save_concurrent_bytes: "int | None" = None,
        restore_concurrent_bytes: "int | None" = None,
        save_device_host_concurrent_bytes: "int | str | None" = None,
        memory_limit_options: Any = None,
        use_ocdbt: bool = True,
        use_zarr3: bool = False,
        use_compression: bool = True,
        multiprocessing_options: "options.MultiprocessingOptions | None" = None,
        type_handler_registry: Any = None,
        enable_post_merge_validation: bool = True,
        pytree_metadata_options: Any = None,
        array_metadata_validator: Any = None,
        enable_pinned_host_transfer: "bool | None" = None,
        is_prioritized_key_fn: Any = None,
    ) -> None:
        # docs/python.md lists the options that have nothing to do here.
        del multiprocessing_options, enable_pinned_host_transfer, is_prioritized_key_fn
        if restore_concurrent_bytes is not None and restore_concurrent_bytes <= 0:
            raise ValueError(
                f"Must provide positive `concurrent_bytes`. Found: {restore_concurrent_bytes}"
            )
        self._restore_memory = restore_concurrent_bytes
        self._own_registry = type_handler_registry
        if array_metadata_validator is not None:
            raise NotImplementedError("array_metadata_validator: one process writes each array")
        limit: Any = save_device_host_concurrent_bytes
        is_auto = save_device_host_concurrent_bytes == "auto"
        most = getattr(memory_limit_options, "max_transfer_concurrent_gb", None)
        if is_auto and most is None:
            raise ValueError(
                "save_device_host_concurrent_bytes='auto' needs "
                "MemoryLimitOptions(max_transfer_concurrent_gb=...)"
            )
        rich = getattr(pytree_metadata_options, "support_rich_types", False)
        self._native = _cairn.TreeHandler(
            use_ocdbt=use_ocdbt,
            use_zarr3=use_zarr3,
            use_compression=use_compression,
            support_rich_types=bool(rich),
            save_concurrent_bytes=save_concurrent_bytes,
            enable_post_merge_validation=enable_post_merge_validation,
            device_host_bytes=None if is_auto else limit,
            auto_device_host_gb=most if is_auto else None,
        )
        self._leaf_options = {
            "is_ocdbt_checkpoint": use_ocdbt,
            "use_zarr3": use_zarr3,
            "use_compression": use_compression,
        }

    @property
    def _registry(self) -> Any:
        return global_registry() if self._own_registry is None else self._own_registry

    def _stored(self, directory: Any) -> StoredTree:
        return StoredTree(directory, self._restore_memory, self._registry)

    async def async_save(
        self, directory: Any, item: Any = None, save_args: Any = None, args: Any = None
    ) -> "list[Any]":
        """Copies the arrays of a tree and starts to write them."""
        if isinstance(item, CheckpointArgs):
            raise ValueError("give the arguments of a save as args=...")
        if args is None:
            args = PyTreeSaveArgs(item=item, save_args=save_args)
        custom = getattr(args, "custom_metadata", None)
        metadata = "" if custom is None else json.dumps(custom)
        target = getattr(args, "ocdbt_target_data_file_size", None)
        _paths, leaves, _ = trees.flatten(args.item)
        if not leaves or (len(leaves) == 1 and trees.is_empty(args.item)):
            raise ValueError("Found empty item.")
        save_args = trees.arguments_by_path(args.save_args, "save_args", save_args_of, "SaveArgs")
        own = OwnLeaves(args.item, self._registry)
        futures = []
        if own:
            options = {**self._leaf_options, "ocdbt_target_data_file_size": target}
            futures = await own.serialize(directory, save_args, options)
        try:
            pending = self._native.async_save(
                os.fspath(directory),
                own.without() if own else args.item,
                _leaf_arguments(save_args),
                target,
                metadata,
                processes.job(),
                time_limits.current(),
            )
        except TypeError as error:  # a leaf of an unknown type, which is a ValueError in Orbax
            raise ValueError(f"TypeHandler lookup failed: {error}") from error
        except NotImplementedError as error:  # an array of a type that no format of Orbax has
            raise ValueError(str(error)) from error
        written = NativeFuture(pending, self._native)
        if not own:
            return [written]
        return [NamingFuture(written, directory, own.typestrs()), *futures]

    def restore(
        self, directory: Any, item: Any = None, restore_args: Any = None, args: Any = None
    ) -> Any:
        """Restores the tree."""
        if isinstance(item, CheckpointArgs):
            raise ValueError("give the arguments of a restore as args=...")
        if args is None:
            args = PyTreeRestoreArgs(item, restore_args)
        return pytree_restore.restore_stored(self._stored(directory), args)

    def metadata(self, directory: Any) -> TreeMetadata:
        """The tree with metadata in place of its values."""
        return tree_metadata_of(self._stored(directory))

    def get_param_names(self, item: Any) -> Any:
        """The tree with each leaf's name, "a.b.0", in its place."""
        from cairn.orbax.tree import get_param_names

        return get_param_names(item)

    def finalize(self, directory: Any) -> None:
        """Ends the write."""
        self._native.finalize(os.fspath(directory))

    def close(self) -> None:
        """Waits for writes. Nothing can be saved afterwards."""
        self._native.close()


def _bytes_of(gigabytes: Any) -> Any:
    return gigabytes if gigabytes is None or gigabytes == "auto" else int(gigabytes * _GB)


def _leaf_arguments(save_args: "dict[Path, SaveArgs]") -> "list[Any]":
    """The arguments of leaves in the form of the native part."""
    from cairn.orbax._impl.leaves.leaf_reads import numpy_dtype

    result = []
    for path, args in save_args.items():
        dtype = None if args.dtype is None else numpy_dtype(args.dtype).name
        if dtype is None and args.chunk_byte_size is None and not args.shard_axes:
            continue
        result.append((list(path), dtype, args.chunk_byte_size, list(args.shard_axes)))
    return result


class PyTreeCheckpointHandler(BasePyTreeCheckpointHandler):
    """Saves and restores a tree, with transforms; limits in gigabytes (10^9 bytes)."""

    _typestr = f"{_ORBAX}.pytree_checkpoint_handler.PyTreeCheckpointHandler"

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
        if aggregate_filename not in (None, "checkpoint"):
            raise NotImplementedError("aggregate_filename: only 'checkpoint' is read")
        super().__init__(
            save_concurrent_bytes=_bytes_of(save_concurrent_gb),
            restore_concurrent_bytes=_bytes_of(restore_concurrent_gb),
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
        if handler_impl is not None:
            self._native = handler_impl._native
            self._own_registry = handler_impl._own_registry
            self._restore_memory = handler_impl._restore_memory
            self._leaf_options = handler_impl._leaf_options
        # Methods of the user's own subclass are called.
        self._impl: Any = None if type(handler_impl) in _COMPLETE else handler_impl

    async def async_save(
        self, directory: Any, item: Any = None, save_args: Any = None, args: Any = None
    ) -> "list[Any]":
        """Copies the arrays of a tree and starts to write them."""
        if self._impl is None:
            return await super().async_save(directory, item, save_args, args)
        args = _base_save_args(item, save_args, args)
        futures: list[Any] = await self._impl.async_save(directory, args=args)
        return futures

    def save(
        self, directory: Any, item: Any = None, save_args: Any = None, args: Any = None
    ) -> None:
        """Writes a tree and waits until that is done."""
        if self._impl is None:
            super().save(directory, item, save_args, args)
        else:
            self._impl.save(directory, args=_base_save_args(item, save_args, args))

    def restore(  # type: ignore[override]
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
        if (
            self._impl is not None
            and getattr(args, "transforms", None) is None
            and getattr(args, "legacy_transform_fn", None) is None
        ):
            partial = getattr(args, "partial_restore", False)
            base = BasePyTreeRestoreArgs(args.item, args.restore_args, partial)
            return self._impl.restore(directory, args=base)
        return pytree_restore.restore_stored(self._stored(directory), args)

    def metadata(self, directory: Any) -> TreeMetadata:
        """The tree with metadata in place of its values."""
        if self._impl is None:
            return super().metadata(directory)
        described: TreeMetadata = self._impl.metadata(directory)
        return described

    def finalize(self, directory: Any) -> None:
        """Ends the write."""
        if self._impl is None:
            super().finalize(directory)
        else:
            self._impl.finalize(directory)

    def close(self) -> None:
        """Waits for writes. Nothing can be saved afterwards."""
        if self._impl is None:
            super().close()
        else:
            self._impl.close()


_COMPLETE = (type(None), BasePyTreeCheckpointHandler, PyTreeCheckpointHandler)


def _base_save_args(item: Any, save_args: Any, args: Any) -> "BasePyTreeSaveArgs":
    if isinstance(item, CheckpointArgs):
        raise ValueError("give the arguments of a save as args=...")
    if args is None:
        args = PyTreeSaveArgs(item=item, save_args=save_args)
    return BasePyTreeSaveArgs(
        args.item,
        args.save_args,
        getattr(args, "ocdbt_target_data_file_size", None),
        getattr(args, "custom_metadata", None),
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
        if isinstance(self.item, TreeMetadata):
            self.item = self.item.tree


@register_with_handler(BasePyTreeCheckpointHandler, for_save=True)
@dataclasses.dataclass
class BasePyTreeSaveArgs(PyTreeSaveArgs):
    """The same for BasePyTreeCheckpointHandler."""


@register_with_handler(BasePyTreeCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class BasePyTreeRestoreArgs(CheckpointArgs):
    """The same for BasePyTreeCheckpointHandler, which has no transforms."""

    item: Any = None
    restore_args: Any = None
    partial_restore: bool = False
