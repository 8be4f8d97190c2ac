"""BasePyTreeCheckpointHandler: saves and restores pytrees. The native part reads and writes."""

import dataclasses
import json
import os
import time
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.base import monitoring, options, processes, time_limits, waiting
from cairn.orbax._impl.handlers import pytree_restore
from cairn.orbax._impl.handlers.args import CheckpointArgs, register_with_handler
from cairn.orbax._impl.handlers.handler import NativeHandler
from cairn.orbax._impl.leaves.matching_args import save_arguments_like
from cairn.orbax._impl.leaves.tree_metadata import TreeMetadata
from cairn.orbax._impl.stored.stored_tree import StoredTree
from cairn.orbax._impl.trees import pytrees
from cairn.orbax._impl.trees.plain import get_param_names
from cairn.orbax._impl.types import writes
from cairn.orbax._impl.types.array_metadatas import called_natively
from cairn.orbax._impl.types.byte_limits import get_byte_limiter
from cairn.orbax._impl.types.empty_values import PyTreeMetadataOptions as PyTreeMetadataOptions
from cairn.orbax._impl.types.native_future import NativeFuture
from cairn.orbax._impl.types.own_leaves import OwnLeaves
from cairn.orbax._impl.types.own_restores import tree_metadata_of
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
        # docs/guides/python-orbax.md lists the options that have nothing to do here.
        del enable_pinned_host_transfer
        monitoring.handler_made(type_handler_registry, is_prioritized_key_fn)
        if restore_concurrent_bytes is not None and restore_concurrent_bytes <= 0:
            raise ValueError(
                f"Must provide positive `concurrent_bytes`. Found: {restore_concurrent_bytes}"
            )
        self._restore_memory = restore_concurrent_bytes
        self._own_registry = type_handler_registry
        if getattr(multiprocessing_options, "primary_host", 0) is None:
            array_metadata_validator = None  # as in Orbax
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
            "validator": called_natively(array_metadata_validator),
        }
        self._native = _cairn.TreeHandler(**self._native_options)  # raises for wrong options
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
        # A msgpack file of an old version does not count: PyTreeCheckpointHandler reads it.
        return StoredTree(directory, self._restore_memory, self._registry, aggregate_filename="")

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
        if pytrees.has_no_leaves(args.item) and not args.item:
            raise ValueError("Found empty item.")
        save_args = save_arguments_like(args.item, args.save_args)
        own = OwnLeaves(args.item, self._registry)
        futures = []
        if own:
            futures = await own.serialize(directory, save_args, self._own_leaf_options(target))
        tree = own.with_types() if own else args.item
        if pytrees.is_empty(tree):  # a node of a class, which Orbax stores as None
            tree = _cairn.LeafType("None")
        handlers = own.native_options()
        record.prepared()
        try:
            pending = self._native.async_save(
                os.fspath(directory),
                tree,
                writes.native_arguments(save_args.items()),
                target,
                metadata,
                processes.job(),
                time_limits.current(),
                handlers,
                waits=waiting.does_caller_wait(),
            )
        except TypeError as error:  # a leaf of an unknown type, which is a ValueError in Orbax
            raise ValueError(f"TypeHandler lookup failed: {error}") from error
        except NotImplementedError as error:  # an array of a type that no format of Orbax has
            raise ValueError(str(error)) from error
        record.initiated(self._native.take_events())
        self._record = record
        return [NativeFuture(pending, self._native, record), *futures]

    def _own_leaf_options(self, target_data_file_size: "int | None") -> "dict[str, Any]":
        """Describes a save to the user's own handlers. They share its byte limits."""
        device_limit: int | None = self._native_options["device_host_bytes"]
        most = self._native_options["auto_device_host_gb"]
        if most is not None:
            device_limit = int(most * 10**9)
        return {
            **self._leaf_options,
            "ocdbt_target_data_file_size": target_data_file_size,
            "byte_limiter": get_byte_limiter(self._native_options["save_concurrent_bytes"]),
            "device_host_byte_limiter": get_byte_limiter(device_limit),
        }

    def restore(self, directory: Any, args: "BasePyTreeRestoreArgs | None" = None) -> Any:
        """Restores the tree: as stored, or like a target."""
        args = args or BasePyTreeRestoreArgs()
        self._check_names(args.item)
        begin, stored = time.time(), self._stored(directory)
        restored = pytree_restore.restore_stored(stored, args)
        size = stored.reader.stored_nbytes()
        monitoring.tree_restored(restored, time.time() - begin, size)
        return restored

    def metadata(self, directory: Any) -> TreeMetadata:
        """The tree with metadata in place of its values."""
        return tree_metadata_of(self._stored(directory))

    def get_param_names(self, item: Any) -> Any:
        """The tree with each leaf's name, "a.b.0", in its place."""
        return get_param_names(item)

    def _check_names(self, item: Any) -> None:
        """Raises NotImplementedError if a subclass gives leaves names of its own."""
        base = BasePyTreeCheckpointHandler.get_param_names
        if getattr(self.get_param_names, "__func__", None) is base:
            return
        if pytrees.by_path(self.get_param_names(item)) != pytrees.by_path(base(self, item)):
            raise NotImplementedError(
                "get_param_names: arrays are stored under their keys, joined with dots; "
                "rename the keys of the tree instead"
            )

    def finalize(self, directory: Any) -> None:
        """Ends the write. Called in one process, when all have written."""
        _cairn.place_shared_leaf_folders(os.fspath(directory))
        begin = time.time()
        self._native.finalize(os.fspath(directory))
        if self._record is not None:
            self._record.finalized(time.time() - begin, directory)

    def close(self) -> None:
        """Waits for writes. A handler that is closed can save again."""
        self._native.close()
        self._native = _cairn.TreeHandler(**self._native_options)


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
