"""Events of saves and restores for jax.monitoring, under Orbax's names.

docs/reference/observer.md has the table.
"""

import logging
import math
import sys
import threading
import time
import warnings
from typing import Any

from cairn._processes import has_jax_distributed
from cairn.orbax._impl.base.events import duration, event, listener, scalar
from cairn.orbax._impl.base.processes import process_index
from cairn.orbax._impl.base.replica_parts import replica_count

_GIB = 1024**3
_log = logging.getLogger("cairn.orbax")
_LOCAL = {"storage_type": "other"}  # Orbax's word for everything but object stores
_WORKER = {**_LOCAL, "custom_prefix": ""}


def _is_primary() -> bool:
    """Whether this process records what a job records once. Does not start the devices."""
    return not has_jax_distributed() or process_index() == 0


_last_save_time = time.time()  # before the first save: the start of the program


def record_saved_duration(checkpoint_start_time: float) -> None:
    """Records how long a program ran between the last save and this one."""
    global _last_save_time
    duration(
        "/jax/checkpoint/write/duration_since_last_checkpoint_secs",
        checkpoint_start_time - _last_save_time,
    )
    _last_save_time = checkpoint_start_time


class SaveRecord:
    """One save of a checkpointer. Made when it begins.

    As in Orbax, most of it is recorded in process 0 only.
    """

    def __init__(self, is_async: bool) -> None:
        self._is_async = is_async
        self._prefix = "/jax/orbax/write/async/" if is_async else "/jax/orbax/write/"
        self.start = time.time()

    def started(self, sync_seconds: float = 0.0) -> None:
        """The processes have met, for which the save has waited."""
        duration("/jax/orbax/write/checkpoint_start_sync_duration_secs", sync_seconds)
        if _is_primary():
            event(f"{self._prefix}start")
            scalar(f"{self._prefix}start_time", self.start * 1000, **_LOCAL)
        event("/jax/orbax/write/storage_type", **_LOCAL)

    def waited(self, seconds: float) -> None:
        """The save before has ended."""
        duration("/jax/orbax/write/blocking_wait_prev_duration_secs", seconds)

    def directory_made(self, seconds: float) -> None:
        """The directory is there under its temporary name."""
        names = ["directory_creation_secs", "blocking_directory_creation_secs"]
        if self._is_async:
            names[1:] = ["async_directory_creation_secs", "background_directory_creation_secs"]
        for name in names:
            duration(f"/jax/orbax/write/{name}", seconds)

    def directory_awaited(self, seconds: float) -> None:
        """Another process has made the directory. An asynchronous save does not wait for it."""
        if not self._is_async:
            self.directory_made(seconds)

    def blocked(self) -> None:
        """The part has ended for which the caller waits."""
        if not _is_primary():
            return
        end = time.time()
        if self._is_async:
            duration("/jax/checkpoint/write/async/blocking_duration_secs", end - self.start)
        duration(f"{self._prefix}blocking_duration_secs", end - self.start, **_LOCAL)
        scalar(f"{self._prefix}blocking_end_time", end * 1000, **_LOCAL)

    def written(self, futures: int, seconds: float) -> None:
        """The futures of the handler have ended, which took this long."""
        scalar("/jax/checkpoint/write/async/commit_future_count", futures)
        duration("/jax/checkpoint/write/async/commit_duration_sec", seconds)
        duration("/jax/orbax/write/background_ts_duration_secs", seconds)

    def finished(self, finalize_seconds: float) -> None:
        """The checkpoint is there, durable."""
        if not _is_primary():
            return
        record_saved_duration(self.start)
        total = time.time() - self.start
        name = "background_finalize_secs" if self._is_async else "finalize_duration_secs"
        duration(f"/jax/orbax/write/{name}", finalize_seconds)
        event("/jax/orbax/write/success")
        if self._is_async:
            duration("/jax/checkpoint/write/async/total_duration_secs", total, **_LOCAL)
        duration(f"{self._prefix}total_duration_secs", total, **_LOCAL)

    def thread_ended(self, seconds: float) -> None:
        """The thread of the background is done."""
        duration("/jax/checkpoint/write/async/thread_duration_sec", seconds)
        duration("/jax/orbax/write/background_duration_secs", seconds)


class RestoreRecord:
    """One restore of a checkpointer. Made when it begins."""

    def __init__(self) -> None:
        self._start = time.time()
        if _is_primary():
            event("/jax/orbax/read/start")
        event("/jax/orbax/read/storage_type", **_LOCAL)

    def finished(self) -> None:
        """The values are there."""
        if not _is_primary():
            return
        seconds = time.time() - self._start
        duration("/jax/orbax/read/blocking_duration_secs", seconds, **_LOCAL)
        event("/jax/orbax/read/success")
        duration("/jax/orbax/read/total_duration_secs", seconds, **_LOCAL)


def handler_made(registry: Any, is_prioritized_key_fn: Any) -> None:
    """A handler of trees is there. Warns if it has no handler of arrays of JAX."""
    if is_prioritized_key_fn is not None:
        event("/jax/orbax/pytree_checkpoint_handler/init/prioritized_key_fn")
    event("/jax/orbax/pytree_checkpoint_handler/init/ocdbt")
    jax = sys.modules.get("jax")
    if registry is not None and jax is not None and not registry.has(jax.Array):
        _log.warning("No jax.Array in TypeHandlerRegistry: ArrayMetadata persistence is disabled.")


class TreeSaveRecord:
    """The save of one tree."""

    def __init__(self, tree: Any, use_ocdbt: bool, use_compression: bool, use_zarr3: bool) -> None:
        self._use_ocdbt = use_ocdbt
        self._start = self._prepared = time.time()
        self._tree = tree
        is_raw = not use_compression
        self._compressor = {
            "compression_algorithm": "none" if is_raw else "zstd",
            "compression_level": "None" if is_raw else "3" if use_zarr3 else "1",
        }
        self._bytes = 0
        self._has_arrays = False
        self._events: list[Any] = []  # of the native part, before anybody waits for it

    def prepared(self) -> None:
        """The leaves have their arguments."""
        self._prepared = time.time()

    def initiated(self, events: "list[Any]") -> None:
        """The values are copied, and are being written. `events` are those of the native part."""
        warn_of_save(events)
        self._events = events
        if listener() is None:
            return
        now = time.time()
        arrays = _device_arrays(self._tree)
        self._has_arrays = bool(arrays)
        self._bytes = _bytes_in(self._tree)
        tree, copies = self._prepared - self._start, now - self._prepared
        duration("/jax/orbax/write/blocking_tree_map_duration_secs", tree)
        duration("/jax/orbax/write/blocking_d2h_duration_secs", copies)
        for array in arrays:
            array_written(array)
        if _is_primary():
            _rate("/jax/orbax/write/blocking_gbytes_per_sec", self._bytes, now - self._start)
        self._tree = None  # the caller may free it

    def written(self, events: "list[Any]") -> None:
        """All is written. `events` are those of the native part."""
        if listener() is None:
            return
        if _is_primary():
            _rate("/jax/orbax/write/gbytes_per_sec", self._bytes, time.time() - self._start)
            scalar("/jax/orbax/write/gbytes", self._bytes / _GIB)
        for _, name, seconds, attributes in self._events + events:
            if name == "save.metadata_written":
                duration("/jax/checkpoint/write/async/metadata_write_duration_secs", seconds)
                duration("/jax/orbax/write/background_meta_write_secs", seconds)
            elif name == "save.item_written" and self._has_arrays:
                stored, logical = attributes["stored_bytes"], attributes["bytes"]
                _worker("write", logical, stored, seconds, self._compressor)

    def finalized(self, seconds: float, directory: Any) -> None:
        """The files of all processes are one tree: their databases are merged, if there are any."""
        if self._use_ocdbt:
            duration("/jax/orbax/write/merge_ocdbt_per_process_files_secs", seconds)
        else:
            warn_of_nothing_to_merge(directory)
        duration("/jax/checkpoint/write/async/ocdbt_merge_duration_secs", seconds)
        duration("/jax/orbax/write/background_ocdbt_merge_secs", seconds)


_WARNING_INTERVAL = 12 * 60 * 60  # seconds
_warned_of_aggregate = -float("inf")


def warn_of_aggregate() -> None:
    """SaveArgs.aggregate has no effect. As in Orbax, the log says so once in 12 hours."""
    global _warned_of_aggregate
    event("/jax/orbax/deprecation/aggregate")
    now = time.monotonic()
    if now - _warned_of_aggregate >= _WARNING_INTERVAL:
        _warned_of_aggregate = now
        _log.warning("The `aggregate` option is deprecated and will be ignored.")


def warn_of_nothing_to_merge(directory: Any) -> None:
    """A directory has no databases of processes."""
    _log.warning(
        "[process=%s][thread=%s] Skipping merge of OCDBT checkpoints: No per-process OCDBT "
        "checkpoint subdirs found in %s, ",
        process_index(),
        threading.current_thread().name,
        directory,
    )


def warn_of_save(events: "list[Any]") -> None:
    """Logs what the native part warns of before a save returns."""
    texts = {
        "save.small_chunks": "Setting the target_byte_size too small could reduce performance."
    }
    for _, name, _, attributes in events:
        for _ in range(attributes.get("leaves", 1) if name in texts else 0):
            _log.warning(texts[name])


def warn_of_stored_sharding() -> None:
    """The arguments give no sharding: the array gets the one of the file _sharding."""
    warnings.warn(
        "Sharding info not provided when restoring. Populating sharding info from sharding file. "
        "Please note restoration time will be slightly increased due to reading from file. Note "
        "also that this option is unsafe when restoring on a different topology than the "
        "checkpoint was saved with.",
        stacklevel=2,
    )


def tree_restored(tree: Any, seconds: float, stored_bytes: int, is_old: bool = False) -> None:
    """The values of a tree are there.

    stored_bytes: as they are in the files. is_old: without _METADATA, or through transforms.
    """
    if listener() is None:
        return
    if not is_old and _is_primary():
        size = _bytes_in(tree)
        _rate("/jax/checkpoint/read/gbytes_per_sec", size, seconds)
        scalar("/jax/checkpoint/read/gbytes", size / _GIB)
    arrays = _device_arrays(tree)
    for array in arrays:
        if array.sharding.shard_shape(array.shape) != array.shape:
            shard_shape_changed()
    if arrays:
        compressor = {"compression_algorithm": "none", "compression_level": "None"}
        logical = sum(array.nbytes for array in arrays)
        _worker("read", logical, stored_bytes, seconds, compressor)


def _worker(
    direction: str, logical: int, stored: int, seconds: float, compressor: "dict[str, str]"
) -> None:
    """The bytes that this process has written or read, before and after compression."""
    prefix = f"/jax/orbax/{direction}/worker/"
    duration(f"{prefix}total_duration_secs", seconds, **_WORKER)
    scalar(f"{prefix}io/requested/gbytes", logical / _GIB, **_WORKER)
    _rate(f"{prefix}io/requested/throughput/gbytes_per_sec", logical, seconds, **_WORKER)
    if stored <= 0:
        return
    scalar(f"{prefix}io/raw/gbytes", stored / _GIB, **_WORKER, **compressor)
    _rate(f"{prefix}io/raw/throughput/gbytes_per_sec", stored, seconds, **_WORKER)
    if logical > 0:
        scalar(f"{prefix}io/compression_ratio", logical / stored, **_WORKER, **compressor)


def _rate(name: str, size: float, seconds: float, **attributes: Any) -> None:
    scalar(name, size / seconds / _GIB if seconds > 0 else float("nan"), **attributes)


def _leaves(tree: Any) -> "list[Any]":
    jax = sys.modules.get("jax")
    found: list[Any] = [] if jax is None else jax.tree_util.tree_leaves(tree)
    return found


def _device_arrays(tree: Any) -> "list[Any]":
    jax = sys.modules.get("jax")
    return [leaf for leaf in _leaves(tree) if jax is not None and isinstance(leaf, jax.Array)]


def _bytes_in(tree: Any) -> int:
    """The bytes of arrays and strings; numbers count as their objects, as in Orbax."""
    return sum(_size(leaf) for leaf in _leaves(tree))


def _size(leaf: Any) -> int:
    size = getattr(leaf, "nbytes", None)
    if isinstance(size, int):
        return size
    if isinstance(leaf, str | bytes):
        return len(leaf.encode() if isinstance(leaf, str) else leaf)
    return sys.getsizeof(leaf)


def array_written(array: Any) -> None:
    """Records the size of an array of JAX, once for a job."""
    if _is_primary():
        name = "sharded_array_gb" if _is_sharded(array) else "replicated_array_gb"
        scalar(f"/jax/orbax/write/{name}", array.nbytes / _GIB)


def shard_shape_changed() -> None:
    """Devices get parts of another shape than the stored array's."""
    event("/jax/orbax/checkpoint/deserialize/shard_shape_changed")


def _is_sharded(array: Any) -> bool:
    """Whether only one device has each part of an array."""
    if array.size == 0:
        return replica_count(array) == 1
    part = math.prod(array.sharding.shard_shape(array.shape))
    return bool(len(array.sharding.device_set) * part <= array.size)


# ---- managers ----

_MANAGER = "/jax/orbax/checkpoint_manager/"
_LONG_WAIT = 1.0  # seconds


def manager_made(directory: Any, options: Any, checkpointers: Any) -> None:
    """A CheckpointManager is made, with these options."""
    event(f"{_MANAGER}init")
    if checkpointers is not None:
        event("/jax/orbax/deprecation/checkpoint_manager_legacy_init")
        _log.warning(
            "Configured `CheckpointManager` using deprecated legacy API. Give `item_handlers` or "
            "`handler_registry` in place of `checkpointers`."
        )
    if options.read_only:
        _log.warning("Given directory is read only=%s", directory)
    scalar(f"{_MANAGER}continuous_checkpointing_enabled", _is_continuous(options))


def _is_continuous(options: Any) -> int:
    policy = options.save_decision_policy
    return int(type(policy).__name__ == "ContinuousCheckpointingPolicy")


def steps_listed(seconds: float) -> None:
    """A manager has listed the steps."""
    duration("/jax/checkpoint/read/load_all_step_metadata_duration_secs", seconds)


def manager_waited(seconds: float) -> None:
    """A manager has waited for the save before, if there was one."""
    if threading.current_thread() is not threading.main_thread():
        return
    duration("/jax/checkpoint/write/wait_for_prev_duration_secs", seconds)
    if seconds > _LONG_WAIT:
        _log.warning(
            "Waiting for previous save to complete took %f seconds. If this number is high, "
            "consider checkpointing less frequently.",
            seconds,
        )


def step_validated(seconds: float) -> None:
    """A manager has checked the arguments of a save."""
    duration("/jax/orbax/write/blocking_val_duration_secs", seconds)


def between_saves(seconds: float) -> None:
    """The time since the end of the save before."""
    duration(
        f"{_MANAGER}time_between_consecutive_saves_secs",
        seconds,
        continuous_checkpointing_enabled=0,
    )


def steps_chosen(seconds: float, examined: int) -> None:
    """A manager has chosen the steps to remove."""
    scalar("/jax/checkpoint/write/old_steps_examined_count", examined)
    duration("/jax/checkpoint/write/get_old_steps_duration_secs", seconds)


def old_steps_removed(seconds: float) -> None:
    """A manager has removed the steps that a new one replaces."""
    duration("/jax/checkpoint/write/remove_steps_duration_secs", seconds)


def step_removed(seconds: float) -> None:
    """A step is removed."""
    duration(f"{_MANAGER}standard_checkpoint_deleter/duration", seconds)


def item_directories_made(seconds: float) -> None:
    """The directories of all items are there. Process 0 makes them."""
    if not _is_primary():
        return
    for name in (
        "directory_creation_secs",
        "async_directory_creation_secs",
        "background_directory_creation_secs",
    ):
        duration(f"/jax/orbax/write/{name}", seconds)


def items_written_at_once(seconds: float) -> None:
    """The handlers that have no async_save have saved their items."""
    duration("/jax/orbax/write/blocking_sync_item_duration_secs", seconds)


def item_finalized(seconds: float) -> None:
    """The handler of an item has finalized it."""
    duration("/jax/orbax/write/background_item_finalize_secs", seconds)
