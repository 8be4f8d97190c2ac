"""cairn.save and cairn.save_async."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from cairn import _cairn
from cairn._arguments import check_flag
from cairn._long_calls import end_before_the_program, shown, shown_in_background

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Unpack

    from cairn._options import AsyncSaveOptions, SaveOptions


_FORMATS = ("orbax", "safetensors", "npz", "msgpack", "torch", "dcp")


def save(
    path: str | os.PathLike[str],
    tree: Any,
    *,
    format: str | None = None,
    overwrite: bool = False,
    metadata: dict[str, Any] | None = None,
    item_metadata: Any = None,
    progress: Any = None,
    coordinator: Any = None,
    timeout: float = 300,
    **options: Unpack[SaveOptions],
) -> None:
    """Saves a tree of arrays. The checkpoint appears complete or not at all, and is then durable.

    Containers are dicts, lists, tuples, named tuples, dataclasses, and what JAX's registry knows
    (flax, optax, equinox). Leaves are arrays of NumPy, JAX and PyTorch, numbers, str and None.
    Arrays are written from their own memory. Keys of dicts are stored as str. The type of other
    keys (int, bool, float, None; key_types of the C++ API) is stored beside it, so that a load
    returns the same keys. PyTorch's files store both, too. safetensors, npz, msgpack and "dcp"
    cannot store the type, and the save warns (UserWarning).

    Args:
      path: a directory (Orbax), or a file that ends in .safetensors, .npz, .msgpack, .pt or .pth;
        or a URL (s3://, gs://) of one. An extension of another program's files (.npy, .h5, ...) is
        a ValueError.
      tree: a tree. A file of safetensors or npz holds its arrays under names like "a.b.c".
      format: "orbax", "safetensors", "npz", "msgpack", "torch" (a file that torch.load reads) or
        "dcp" (a folder that torch.distributed.checkpoint loads; its option chunk_bytes cuts larger
        tensors); None: by the end of the path. "orbax" and "dcp" make a folder of any name.
      overwrite: replace an older checkpoint, once the new one is complete.
      metadata: a dict about the checkpoint: of values for JSON, which Orbax's
        metadata().custom_metadata returns, or of text (safetensors).
      item_metadata: any value for JSON about the tree of an Orbax checkpoint. Orbax's
        metadata().item_metadata.custom_metadata returns it.
      progress: True (a bar), or a function of bytes done and bytes in total. Where several
        processes save, each counts its own bytes. An exception of the function ends the save, and
        nothing is saved; if it came too late for that, the checkpoint is complete, and the
        exception is a warning.
      coordinator: how the processes of a job reach each other. None: by jax.distributed or
        torch.distributed, where one of them has several processes; "jax", "torch"; "none": this
        process saves alone; or an object of your own (docs/guides/python.md). All processes of the
        job then save together: they make the same calls, in the same order, with trees of the same
        structure. Orbax checkpoints and "dcp" only.
      timeout: seconds to wait for the other processes; four times that while they write.
      **options: of Orbax checkpoints. use_ocdbt (True), use_zarr3 (False), item (a name: "default"
        as in the steps of a manager), v1 (True: with the marker that version 1 of Orbax's API looks
        for; needs `item`, where that API takes "state"), compression ("auto", "reproducible",
        "smallest", "none", "zstd:3", "blosc"), chunk_bytes, target_file_bytes, durability
        ("synced", "unsynced"), support_rich_types (True: tuples and named tuples come back as
        such), commit_protocol ("atomic_rename", "commit_file": written at its path, complete with
        commit_success.txt; for file systems that cannot rename a directory), reuse_from (the path
        of an earlier checkpoint, whose files unchanged arrays share), save_timeout (seconds; a save
        that takes longer is stopped and removed, and is a TimeoutError), storage_options (how to
        reach the store of a URL, as in open(); also for files), threads, memory (bytes).

    Raises:
      FileExistsError: the path exists, and overwrite is False, or it is a folder that is not a
        checkpoint.
      ValueError, TypeError: a leaf that cannot be stored, named by its path.
      OSError: the system refuses.
    """
    path = os.fsdecode(path)
    chosen = _format(path, format)
    check_flag("overwrite", overwrite)
    with shown(progress, "save") as callback:
        if chosen == "orbax":
            native = _options(overwrite, metadata, item_metadata, {**options}, coordinator, timeout)
            _cairn.save(path, tree, native, callback)
            return
        is_dcp = chosen == "dcp"
        if not is_dcp and coordinator not in (None, "none"):
            raise ValueError(f"{chosen} has no option coordinator; one process writes it")
        given: dict[str, Any] = {**options}
        storage_options = given.pop("storage_options", None)
        chunk_bytes = given.pop("chunk_bytes", None) if is_dcp else None
        if given:
            raise ValueError(f"{chosen} has no option {', '.join(sorted(given))}")
        if item_metadata is not None:
            raise ValueError(f"{chosen} has no items; give metadata")
        if metadata and chosen != "safetensors":
            raise ValueError(f"{chosen} holds no metadata")
        if not isinstance(metadata or {}, Mapping):
            raise ValueError(f"metadata: expected a dict, not {metadata!r}")
        texts = {str(key): str(value) for key, value in (metadata or {}).items()}
        text = json_text("metadata", texts or None)
        job = processes(coordinator, timeout) if is_dcp else None
        _cairn.save_file(
            path, tree, chosen, overwrite, text, callback, storage_options, chunk_bytes, job
        )


def save_async(
    path: str | os.PathLike[str],
    tree: Any,
    *,
    format: str | None = None,
    overwrite: bool = False,
    metadata: dict[str, Any] | None = None,
    item_metadata: Any = None,
    progress: Any = None,
    coordinator: Any = None,
    timeout: float = 300,
    **options: Unpack[AsyncSaveOptions],
) -> PendingSave:
    """Saves an Orbax checkpoint in the background. Returns when the caller may change the arrays.

    Arguments as those of save(). The format is "orbax": a path with the extension of a file is a
    ValueError. Another thread calls `progress`, until everything is written; wait() raises its
    exception.

    One more option: background_copy_bytes, the most bytes that are copied before the call returns.
    A save with more copies none, and the call returns when the arrays are written.
    """
    path = os.fsdecode(path)
    chosen = _format(path, format)
    check_flag("overwrite", overwrite)
    if chosen != "orbax":
        raise ValueError(
            f"{path}: save_async writes Orbax checkpoints, not {chosen}; call save, or give "
            "format='orbax'"
        )
    native = _options(overwrite, metadata, item_metadata, {**options}, coordinator, timeout)
    bar = shown_in_background(progress, "save")
    try:
        return PendingSave(_cairn.BackgroundSave(path, tree, native, bar.callback), path, bar)
    except BaseException:
        bar.close()
        raise


def _format(path: str, given: str | None) -> str:
    """The format to write: the given one, or that of the path's extension."""
    if given is not None:
        if given not in _FORMATS:
            raise ValueError(f"unknown format '{given}'; known are {', '.join(_FORMATS)}")
        return given
    found = _cairn.save_format(path)
    if found == "tensorflow":
        raise ValueError(
            f"{path}: save writes no TensorFlow checkpoints; cairn.convert() makes one of a saved "
            "checkpoint, and format='orbax' a folder of this name"
        )
    return found


def processes(coordinator: Any, timeout: float) -> Any:
    """The job of several processes in which this one saves, or None."""
    if coordinator is None and "jax" not in sys.modules and "torch" not in sys.modules:
        return None
    from cairn import _processes

    return _processes.job(coordinator, timeout)


def _options(
    overwrite: bool,
    metadata: Any,
    item_metadata: Any,
    options: dict[str, Any],
    coordinator: Any,
    timeout: float,
) -> dict[str, Any]:
    for name, argument in (("if_exists", "overwrite"), ("custom_metadata", "metadata")):
        if name in options:
            raise ValueError(f"{name} is not an option; use {argument}")
    chosen: dict[str, Any] = {"support_rich_types": True}
    chosen["processes"] = processes(coordinator, timeout)
    chosen.update(options)
    chosen["if_exists"] = "replace" if overwrite else "fail"
    chosen["custom_metadata"] = json_text("metadata", metadata)
    chosen["item_metadata"] = json_text("item_metadata", item_metadata)
    return chosen


def json_text(name: str, value: Any) -> str:
    """The JSON of an argument; "" for None. An error names the argument."""
    if value is None:
        return ""
    import json

    try:
        return json.dumps(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from error


class PendingSave:
    """A save that goes on in the background. The program waits for it before it ends."""

    def __init__(self, native: Any, path: str, bar: shown_in_background) -> None:
        self._native = native
        self._bar = bar
        self.path = path
        end_before_the_program(self, path)

    def done(self) -> bool:
        """Returns True if the save has ended, with success or with an error."""
        return not self._native.is_running()

    def cancel(self) -> None:
        """Asks the save to stop. wait() then raises RuntimeError, and nothing is at the path."""
        self._native.cancel()

    def wait(self) -> None:
        """Waits until the checkpoint is durable and has its name. Raises its error, once."""
        try:
            self._native.wait()
        finally:
            self._bar.close()

    def __enter__(self) -> PendingSave:
        return self

    def __exit__(self, *exception: object) -> None:
        self.wait()

    def __repr__(self) -> str:
        return f"<cairn.PendingSave {self.path!r}: {'ended' if self.done() else 'running'}>"
