"""Writes leaves for type handlers, in the form in which Orbax merges and describes them.

The leaves become a database of their own, ocdbt.process_cairn<n>, which the end of the save merges
as that of a process; without a database, each array has its folder. Files that other handlers write
too (_sharding, _strings.json, array_metadatas) are merged.

Several processes write into one folder, cairn.tmp_<id>, each a database of its own. The first moves
them at the end of the save, when all have written. Handlers of Orbax itself do the same: in the
checkpoint's own directory, their databases would have the names of those of the native part. The
native part makes these folders and moves the files.
"""

import asyncio
import contextlib
import dataclasses
import os
import shutil
import threading
import time
from collections.abc import Iterable
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.base import processes, time_limits
from cairn.orbax._impl.leaves.leaf_reads import numpy_dtype
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.paths.store_path import StorePath, is_store_url
from cairn.orbax._impl.types.batches import Batches
from cairn.orbax._impl.types.leaf_options import native_options
from cairn.orbax._impl.types.native_future import NativeFuture

_PATIENCE = 10  # seconds until the directory of a background save must be there


class NotHereError(NotImplementedError):
    """These leaves are for the other package's own handler."""


@dataclasses.dataclass
class _Leaf:
    value: Any
    info: Any
    args: Any
    handler: Any


class GroupFuture(NativeFuture):
    """Ends when the leaves are written and their files are where the format has them."""

    def __init__(
        self, native: Any, pending: Any, scratch: str, directory: str, is_shared: bool
    ) -> None:
        super().__init__(pending, native)
        self._scratch = scratch
        self._directory = directory
        self._lock = threading.Lock()
        self._is_placed = is_shared  # place_shared_leaf_folders() does it

    def result(self, timeout: "float | None" = None) -> None:
        """Waits until everything is written and placed."""
        super().result(timeout)
        with self._lock:
            if not self._is_placed:
                _cairn.place_leaf_folder(self._scratch, self._directory)
                self._is_placed = True


async def write_leaves(values: Any, infos: Any, args: Any, handler: Any) -> "list[Any]":
    """Copies the values and starts to write them. Returns the futures of that.

    Values, infos and args are those of the handler's serialize(); its options count. Leaves of
    handlers that are called together are written together. In a run of several processes, all of
    them call it, in a save by a checkpointer; else it raises NotImplementedError.
    """
    processes.require_step("type handlers that extend or call NumpyHandler, ArrayHandler and so on")
    leaves = [_Leaf(*leaf, handler) for leaf in zip(values, infos, args, strict=True)]
    if not leaves:
        return []
    _, future = await _batches.add(directory_of(infos[0]), leaves)
    return [future]


def directory_of(info: Any) -> str:
    """The directory of a leaf's checkpoint, which need not exist yet."""
    parent = getattr(info, "_parent_dir", None) or info.parent_dir
    return str(as_path(getattr(parent, "path", parent)))


def check_is_local(infos: Any) -> None:
    """Raises NotHereError for leaves of a checkpoint in a store."""
    if infos and is_store_url(directory_of(infos[0])):
        raise NotHereError(f"{directory_of(infos[0])}: is not a local directory")


async def _start(directory: str, leaves: "list[_Leaf]") -> GroupFuture:
    info = leaves[0].info
    await _created(info, directory)
    limit = getattr(info.byte_limiter, "max_bytes", None)
    options = native_options({id(leaf.handler): leaf.handler for leaf in leaves}.values())
    native = _cairn.TreeHandler(
        use_ocdbt=bool(info.is_ocdbt_checkpoint),
        use_zarr3=bool(info.use_zarr3),
        use_compression=info.use_compression is not False,
        support_rich_types=False,
        save_concurrent_bytes=limit,
        enable_post_merge_validation=False,
        device_host_bytes=None,
        auto_device_host_gb=None,
    )
    job = processes.job()
    if job is None:
        scratch = _cairn.make_leaf_folder(directory, bool(info.is_ocdbt_checkpoint))
    else:
        scratch = _cairn.make_shared_leaf_folder(directory, job.unique_id())
    try:
        pending = native.async_save(
            scratch,
            {leaf.info.name: leaf.value for leaf in leaves},
            native_arguments(((leaf.info.name,), leaf.args) for leaf in leaves),
            info.ocdbt_target_data_file_size,
            "",
            job,
            time_limits.current(),
            handlers=options,
        )
    except BaseException:
        if job is None:
            _remove(scratch)
        raise
    return GroupFuture(native, pending, scratch, directory, job is not None)


_batches = Batches(_start)


def _remove(folder: str) -> None:
    """Removes a folder as far as possible: another error is more informative."""
    if not is_store_url(folder):
        shutil.rmtree(folder, ignore_errors=True)
        return
    with contextlib.suppress(OSError):
        StorePath(folder).rmtree(missing_ok=True)


async def _created(info: Any, directory: str) -> None:
    """Waits until the directory of a background save is there, which another thread makes."""
    await info.await_path_creation()
    if is_store_url(directory):
        return  # which has no directories
    end = time.monotonic() + _PATIENCE
    while not os.path.isdir(directory):
        if time.monotonic() > end:
            raise NotHereError(f"{directory}: does not exist")
        await asyncio.sleep(0.001)


def native_arguments(save_args: "Iterable[tuple[tuple[str, ...], Any]]") -> "list[Any]":
    """The SaveArgs of leaves, with their paths, in the form of the native part."""
    result = []
    for path, args in save_args:
        dtype = None if args.dtype is None else numpy_dtype(args.dtype).name
        shapes = [getattr(args, name, None) for name in ("write_chunk_shape", "read_chunk_shape")]
        chosen = (
            dtype,
            args.chunk_byte_size,
            list(args.shard_axes),
            *(None if shape is None else list(shape) for shape in shapes),
        )
        if any(one not in (None, []) for one in chosen):
            result.append((list(path), *chosen))
    return result
