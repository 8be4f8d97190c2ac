"""BasePyTreeCheckpointHandler: saves and restores trees. The native part reads and writes."""

import dataclasses
import json
import os
import time
from typing import Any

from cairn import _cairn
from cairn.orbax import options
from cairn.orbax._impl import monitoring, processes, pytree_restore, time_limits, trees
from cairn.orbax._impl.handlers.args import CheckpointArgs, register_with_handler
from cairn.orbax._impl.handlers.handler import NativeHandler
from cairn.orbax._impl.leaves.leaf_args import SaveArgs
from cairn.orbax._impl.leaves.matching_args import save_arguments_like
from cairn.orbax._impl.stored_tree import Path, StoredTree
from cairn.orbax._impl.tree_metadata import TreeMetadata, tree_metadata_of
from cairn.orbax._impl.types import writes
from cairn.orbax._impl.types.empty_values import PyTreeMetadataOptions as PyTreeMetadataOptions
from cairn.orbax._impl.types.native_future import NativeFuture
from cairn.orbax._impl.types.own_leaves import NamingFuture, OwnLeaves
from cairn.orbax._impl.types.type_registry import global_registry

_ORBAX = "orbax.checkpoint._src.handlers"


class PartialSaveError(Exception):
    """An error of a save of a part of a tree."""


class PartialSaveReplacementError(PartialSaveError):
    """A part has leaves that are already saved."""


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
        del multiprocessing_options, enable_pinned_host_transfer
        monitoring.handler_made(type_handler_registry, is_prioritized_key_fn)
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
        self._native_options: dict[str, Any] = {
            "use_ocdbt": use_ocdbt,
            "use_zarr3": use_zarr3,
            "use_compression": use_compression,
            "support_rich_types": bool(rich),
            "save_concurrent_bytes": save_concurrent_bytes,
            "enable_post_merge_validation": enable_post_merge_validation,
            "device_host_bytes": None if is_auto else limit,
            "auto_device_host_gb": most if is_auto else None,
        }
        self._native = _cairn.TreeHandler(**self._native_options)
        self._record: monitoring.TreeSaveRecord | None = None
        self._leaf_options = {
            "is_ocdbt_checkpoint": use_ocdbt,
            "use_zarr3": use_zarr3,
            "use_compression": use_compression,
        }

    # For copy.copy() and copy.deepcopy(): the native object has no copy, so one is made anew.

    def __getstate__(self) -> "dict[str, Any]":
        return {name: value for name, value in vars(self).items() if name != "_native"}

    def __setstate__(self, state: "dict[str, Any]") -> None:
        vars(self).update(state)
        self._native = _cairn.TreeHandler(**self._native_options)

    @property
    def _registry(self) -> Any:
        return global_registry() if self._own_registry is None else self._own_registry

    def _stored(self, directory: Any) -> StoredTree:
        return StoredTree(directory, self._restore_memory, self._registry)

    async def async_save(self, directory: Any, args: "BasePyTreeSaveArgs") -> "list[Any]":
        """Copies the arrays of a tree and starts to write them.

        Raises ValueError for a tree without leaves, and for leaves that have no handler.
        """
        if args.partial_save_mode:
            raise NotImplementedError(
                "partial_save_mode: cairn.orbax.v1.partial saves a tree in several parts"
            )
        use = self._leaf_options
        record = monitoring.TreeSaveRecord(
            args.item, use["is_ocdbt_checkpoint"], use["use_compression"], use["use_zarr3"]
        )
        metadata = "" if args.custom_metadata is None else json.dumps(args.custom_metadata)
        target = args.ocdbt_target_data_file_size
        self._check_names(args.item)
        if trees.has_no_leaves(args.item) and not args.item:
            raise ValueError("Found empty item.")
        save_args = save_arguments_like(args.item, args.save_args)
        own = OwnLeaves(args.item, self._registry)
        futures = []
        if own:
            options = {**self._leaf_options, "ocdbt_target_data_file_size": target}
            futures = await own.serialize(directory, save_args, options)
        tree, typestrs = own.without() if own else args.item, own.typestrs()
        if trees.is_empty(tree):  # a node of a class, which Orbax stores as None
            tree, typestrs = ..., {(): "None"}
        handlers = own.native_options()
        record.prepared()
        try:
            pending = self._native.async_save(
                os.fspath(directory),
                tree,
                _leaf_arguments(save_args),
                target,
                metadata,
                processes.job(),
                time_limits.current(),
                handlers,
            )
        except TypeError as error:  # a leaf of an unknown type, which is a ValueError in Orbax
            raise ValueError(f"TypeHandler lookup failed: {error}") from error
        except NotImplementedError as error:  # an array of a type that no format of Orbax has
            raise ValueError(str(error)) from error
        record.initiated(self._native.take_events())
        self._record = record
        written = NativeFuture(pending, self._native, record)
        if not typestrs:
            return [written]
        return [NamingFuture(written, directory, typestrs), *futures]

    def restore(self, directory: Any, args: "BasePyTreeRestoreArgs | None" = None) -> Any:
        """Restores the tree: as stored, or like a target."""
        args = args or BasePyTreeRestoreArgs()
        self._check_names(args.item)
        begin, stored = time.time(), self._stored(directory)
        restored = pytree_restore.restore_stored(stored, args)
        size = sum(info.stored_nbytes for info in stored.infos)
        monitoring.tree_restored(restored, time.time() - begin, size)
        return restored

    def metadata(self, directory: Any) -> TreeMetadata:
        """The tree with metadata in place of its values."""
        return tree_metadata_of(self._stored(directory))

    def get_param_names(self, item: Any) -> Any:
        """The tree with each leaf's name, "a.b.0", in its place."""
        from cairn.orbax.tree import get_param_names

        return get_param_names(item)

    def _check_names(self, item: Any) -> None:
        """Raises NotImplementedError if a subclass gives leaves names of its own."""
        base = BasePyTreeCheckpointHandler.get_param_names
        if getattr(self.get_param_names, "__func__", None) is base:
            return
        if trees.by_path(self.get_param_names(item)) != trees.by_path(base(self, item)):
            raise NotImplementedError(
                "get_param_names: arrays are stored under their keys, joined with dots; "
                "rename the keys of the tree instead"
            )

    def finalize(self, directory: Any) -> None:
        """Ends the write. Called in one process, when all have written."""
        writes.place_shared(directory)
        begin = time.time()
        self._native.finalize(os.fspath(directory))
        if self._record is not None:
            self._record.finalized(time.time() - begin, directory)

    def close(self) -> None:
        """Waits for writes. Nothing can be saved afterwards."""
        self._native.close()


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


@register_with_handler(BasePyTreeCheckpointHandler, for_save=True)
@dataclasses.dataclass
class BasePyTreeSaveArgs(CheckpointArgs):
    """A tree to be saved, with SaveArgs for its leaves. partial_save_mode: must be False."""

    item: Any
    save_args: Any = None
    ocdbt_target_data_file_size: "int | None" = None
    custom_metadata: Any = None
    partial_save_mode: bool = False


@register_with_handler(BasePyTreeCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class BasePyTreeRestoreArgs(CheckpointArgs):
    """How a tree is restored.

    item: the target, None for the stored structure. restore_args: RestoreArgs for its leaves.
    partial_restore: what the target lacks is left out, and what is not stored keeps the target's
    value.
    """

    item: Any = None
    restore_args: Any = None
    partial_restore: bool = False
