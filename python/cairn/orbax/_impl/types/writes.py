"""Writes leaves for type handlers, in the form in which Orbax merges and describes them.

The leaves become a database of their own, ocdbt.process_cairn_<n>, which the end of the save merges
as that of a process; without a database, each array has its folder. Files that other handlers write
too (_sharding, _strings.json, array_metadatas) are merged.
"""

import asyncio
import dataclasses
import json
import os
import shutil
import threading
import time
from typing import Any

from cairn import _cairn
from cairn.orbax._impl import processes, time_limits
from cairn.orbax._impl.leaves.leaf_reads import numpy_dtype
from cairn.orbax._impl.paths import STRINGS_FILE, TREE_METADATA_FILE
from cairn.orbax._impl.types.batches import Batches
from cairn.orbax._impl.types.leaf_options import native_options
from cairn.orbax._impl.types.native_future import NativeFuture

_PATIENCE = 10  # seconds until the directory of a background save must be there
_SHARDINGS = "_sharding"
_ARRAYS = "array_metadatas"


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
        self, native: Any, pending: Any, scratch: str, directory: str, strings: str
    ) -> None:
        super().__init__(pending, native)
        self._scratch = scratch
        self._directory = directory
        self._strings = strings
        self._lock = threading.Lock()
        self._is_placed = False

    def result(self, timeout: "float | None" = None) -> None:
        """Waits until everything is written and placed."""
        super().result(timeout)
        with self._lock:
            if not self._is_placed:
                _place(self._scratch, self._directory, self._strings)
                self._is_placed = True


async def write_leaves(values: Any, infos: Any, args: Any, handler: Any) -> "list[Any]":
    """Copies the values and starts to write them. Returns the futures of that.

    Values, infos and args are those of the handler's serialize(); its options count. Leaves of
    handlers that are called together are written together. Raises NotImplementedError in a run of
    several processes.
    """
    processes.require_one("type handlers that extend or call NumpyHandler, ArrayHandler and so on")
    leaves = [_Leaf(*leaf, handler) for leaf in zip(values, infos, args, strict=True)]
    if not leaves:
        return []
    _, future = await _batches.add(directory_of(infos[0]), leaves)
    return [future]


def directory_of(info: Any) -> str:
    """The directory of a leaf's checkpoint, which need not exist yet."""
    parent = getattr(info, "_parent_dir", None) or info.parent_dir
    text = str(os.fspath(getattr(parent, "path", parent)))
    if "://" in text:
        raise NotHereError(f"{text}: Cairn's handlers write local directories")
    return text


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
    scratch = _scratch(directory, bool(info.is_ocdbt_checkpoint))
    try:
        pending = native.async_save(
            scratch,
            {leaf.info.name: leaf.value for leaf in leaves},
            _leaf_arguments(leaves),
            info.ocdbt_target_data_file_size,
            "",
            time_limit=time_limits.current(),
            handlers=options,
        )
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    strings = ((options or {}).get("string") or {}).get("filename") or STRINGS_FILE
    return GroupFuture(native, pending, scratch, directory, strings)


_batches = Batches(_start)


async def _created(info: Any, directory: str) -> None:
    """Waits until the directory of a background save is there, which another thread makes."""
    await info.await_path_creation()
    end = time.monotonic() + _PATIENCE
    while not os.path.isdir(directory):
        if time.monotonic() > end:
            raise NotHereError(f"{directory}: does not exist")
        await asyncio.sleep(0.001)


def _scratch(directory: str, is_database: bool) -> str:
    number = 0
    while True:
        name = f"ocdbt.process_cairn_{number}" if is_database else f"cairn.tmp_{number}"
        path = os.path.join(directory, name)
        try:
            os.mkdir(path)
            return path
        except FileExistsError:
            number += 1


def _leaf_arguments(leaves: "list[_Leaf]") -> "list[Any]":
    result = []
    for leaf in leaves:
        args = leaf.args
        dtype = None if args.dtype is None else numpy_dtype(args.dtype).name
        if dtype is not None or args.chunk_byte_size is not None or args.shard_axes:
            result.append(([leaf.info.name], dtype, args.chunk_byte_size, list(args.shard_axes)))
    return result


# ---- where the files belong ----


def _place(scratch: str, directory: str, strings: str) -> None:
    """Moves what is not the database to the directory of the checkpoint."""
    is_database = os.path.exists(os.path.join(scratch, "manifest.ocdbt"))
    for name in os.listdir(scratch):
        path = os.path.join(scratch, name)
        if name == TREE_METADATA_FILE:
            os.remove(path)  # of this part only; the handler of the tree writes that of all
        elif name in (_SHARDINGS, strings):
            _join(path, os.path.join(directory, name), lambda old, new: {**old, **new})
        elif name == _ARRAYS:
            _place_array_metadatas(path, os.path.join(directory, name))
        elif not is_database:
            _move(path, os.path.join(directory, name))
    if not is_database:
        os.rmdir(scratch)


def _place_array_metadatas(source: str, target: str) -> None:
    os.makedirs(target, exist_ok=True)
    for name in os.listdir(source):
        _join(
            os.path.join(source, name),
            os.path.join(target, name),
            lambda old, new: {_ARRAYS: old[_ARRAYS] + new[_ARRAYS]},
        )
    os.rmdir(source)


def _join(source: str, target: str, joined: Any) -> None:
    """Moves a file of JSON, joined with the one that another handler has written."""
    if os.path.exists(target):
        with open(target, encoding="utf-8") as file:
            old = json.load(file)
        with open(source, encoding="utf-8") as file:
            new = json.load(file)
        with open(source, "w", encoding="utf-8") as file:
            json.dump(joined(old, new), file)
    os.replace(source, target)


def _move(source: str, target: str) -> None:
    """Moves a folder; one that exists takes what is in it."""
    if not os.path.isdir(target):
        os.replace(source, target)
        return
    for name in os.listdir(source):
        _move(os.path.join(source, name), os.path.join(target, name))
    os.rmdir(source)
