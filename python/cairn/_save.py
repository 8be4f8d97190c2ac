"""cairn.save and cairn.save_async."""

from __future__ import annotations

import atexit
import os
import sys
import weakref

from cairn import _cairn
from cairn._progress import shown

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from typing import Any

_FORMATS = {".safetensors": "safetensors", ".npz": "npz", ".msgpack": "msgpack"}


def save(
    path: str | os.PathLike[str],
    tree: Any,
    *,
    format: str | None = None,
    overwrite: bool = False,
    metadata: dict[str, Any] | None = None,
    progress: Any = None,
    **options: Any,
) -> None:
    """Saves a tree of arrays. The checkpoint appears complete or not at all, and is durable then.

    Containers are dicts, lists, tuples, named tuples, dataclasses, and what JAX's registry knows
    (flax, optax, equinox). Leaves are arrays of NumPy, JAX and PyTorch, numbers, str and None.
    Arrays are written from their own memory.

    Args:
      path: a directory (Orbax), or a file that ends in .safetensors, .npz or .msgpack.
      tree: what to save. A file of safetensors or npz holds its arrays under names like "a.b.c".
      format: "orbax", "safetensors", "npz" or "msgpack"; None: by the end of the path.
      overwrite: replace an older checkpoint, once the new one is complete.
      metadata: values for JSON, stored with the tree (Orbax), or text (safetensors).
      progress: True (a bar), or a function of bytes done and bytes in total.
      **options: of Orbax checkpoints. use_ocdbt (True), use_zarr3 (False), item (a name: "default"
        as in the steps of a manager), compression ("auto", "none", "zstd:3", "blosc"), chunk_bytes,
        target_file_bytes, durability ("synced", "unsynced"), support_rich_types (True: tuples and
        named tuples come back as such), threads, memory (bytes).

    Raises:
      FileExistsError: the path exists, and overwrite is False, or it is not a checkpoint.
      ValueError, TypeError: a leaf that cannot be stored, named by its path.
      OSError: the system refuses.
    """
    path = os.fsdecode(path)
    chosen = format or _FORMATS.get(os.path.splitext(path)[1], "orbax")
    with shown(progress, "save") as callback:
        if chosen == "orbax":
            _cairn.save(path, tree, _options(overwrite, metadata, options), callback)
            return
        if options:
            raise ValueError(f"{chosen} has no option {', '.join(sorted(options))}")
        if metadata and chosen != "safetensors":
            raise ValueError(f"{chosen} holds no metadata")
        text = {str(key): str(value) for key, value in (metadata or {}).items()}
        _cairn.save_file(path, tree, chosen, overwrite, text, callback)


def save_async(
    path: str | os.PathLike[str],
    tree: Any,
    *,
    overwrite: bool = False,
    metadata: dict[str, Any] | None = None,
    **options: Any,
) -> PendingSave:
    """Saves an Orbax checkpoint in the background. Returns when the caller may change the arrays.

    Arguments as those of save(). The options chunk_bytes and durability are not available.
    """
    path = os.fsdecode(path)
    pending = _cairn.BackgroundSave(path, tree, _options(overwrite, metadata, options))
    return PendingSave(pending, path)


def _options(overwrite: bool, metadata: Any, options: dict[str, Any]) -> dict[str, Any]:
    chosen: dict[str, Any] = {"support_rich_types": True}
    chosen.update(options)
    chosen["if_exists"] = "replace" if overwrite else "fail"
    if metadata is not None:
        import json

        chosen["custom_metadata"] = json.dumps(metadata)
    return chosen


_running: weakref.WeakSet[PendingSave] = weakref.WeakSet()


class PendingSave:
    """A save that goes on in the background. The program waits for it before it ends."""

    def __init__(self, native: Any, path: str) -> None:
        self._native = native
        self.path = path
        _running.add(self)

    def done(self) -> bool:
        """Whether the save has ended, well or not."""
        return not self._native.is_running()

    def cancel(self) -> None:
        """Asks the save to stop. wait() then raises RuntimeError, and nothing is at the path."""
        self._native.cancel()

    def wait(self) -> None:
        """Waits until the checkpoint is durable and has its name. Raises its error, once."""
        self._native.wait()

    def __enter__(self) -> PendingSave:
        return self

    def __exit__(self, *exception: object) -> None:
        self.wait()

    def __repr__(self) -> str:
        return f"<cairn.PendingSave {self.path!r}: {'ended' if self.done() else 'running'}>"


@atexit.register
def _wait_for_all() -> None:
    for pending in list(_running):
        try:
            pending.wait()
        except Exception as error:  # nobody is left to handle it
            print(f"cairn: the save of {pending.path} failed: {error}", file=sys.stderr)
