"""cairn.load: a whole checkpoint into memory, or into the caller's own structure."""

from __future__ import annotations

import os

from cairn._arguments import check_flag, included
from cairn._checkpoint import Checkpoint, open_whole
from cairn._load_stored import check_arguments, read_leaves, warn_of_lost_keys
from cairn._load_target import load_into, load_like
from cairn._long_calls import shown

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from typing import Any

    from cairn._options import StoreOptions


def load(
    path: str | os.PathLike[str] | Checkpoint,
    target: Any = None,
    *,
    out: Any = None,
    include: str | list[str] | None = None,
    step: int | None = None,
    item: str | None = None,
    partial: bool = False,
    framework: str | None = None,
    dtype: Any = None,
    sharding: Any = None,
    casting: str = "checked",
    allow_missing: bool = False,
    storage_options: StoreOptions | None = None,
    progress: Any = None,
) -> Any:
    """Reads a checkpoint into memory.

    Without a target: dicts and lists of NumPy arrays, numbers and strings, as stored. The arrays
    are the caller's own; those of less than 2 MiB share blocks of memory of 16 MiB. Keys of dicts
    are what they were when cairn saved them: int, bool, float, None or str. Orbax stores all keys
    as str: the load warns (UserWarning) of dicts whose keys may have been ints.

    Args:
      path: the checkpoint, as in open(), or one that open() has opened.
      target: a tree of the structure to return. Each leaf says what to return in its place: an
        array of NumPy, a tensor of PyTorch, an array of JAX or a jax.ShapeDtypeStruct (with its
        sharding), a number or a str. Values are converted to the leaf's type (see casting); shapes
        must agree. `...` stays. An empty dict accepts the stored dict in its place, for example the
        state of an optimizer before its first step. The target is not changed.
      out: a tree of arrays of NumPy, tensors of PyTorch or memoryviews, into which the values are
        read. Types and shapes must be those stored. It is returned.
      include: globs; only leaves whose names match are read; None: all. Without a target.
      step: the step to read below a directory of steps; None: the latest.
      item: the item to read of a checkpoint that has several.
      partial: leaves that the target lacks are not read; leaves that are not stored keep the
        target's value. False: either is a ValueError that lists them.
      framework: "numpy" (None), "torch" or "jax": whose arrays to return. Without a target, whose
        own leaves say so; its empty dicts get arrays of the kind of its other leaves.
      dtype: a type to which floating-point arrays are converted, or None. Without a target.
      sharding: a jax.sharding.Sharding for all arrays, or a function of a leaf's name and shape
        that returns one. Each device reads its part only. Without a target.
      casting: "checked": floating-point numbers may be rounded to smaller ones. A number that the
        target's type cannot hold otherwise is a ValueError with its name and index: an integer
        that is too large or not exact as a float, a fraction or NaN as an integer, an imaginary
        part as a real number, any number as a bool. "unsafe": as astype() of NumPy.
      allow_missing: read what is left of a checkpoint that lacks a part it records, an item or a
        file, and warn of that part. False: that is a CorruptionError.
      storage_options: how to reach the store of a URL, as in open().
      progress: True (a bar), or a function of bytes done and bytes in total.

    Raises:
      FileNotFoundError: there is no such checkpoint, step or item.
      KeyError: no leaf matches `include`.
      CorruptionError: stored bytes are damaged, or something that the checkpoint records is
        missing.
      ValueError: the target does not have the stored structure or shapes, a value is lost in the
        target's type, or the path is not a checkpoint.
      TypeError: sharding is not a sharding.
    """
    check_arguments(target, out, include, framework, dtype, sharding, casting)
    check_flag("partial", partial)
    check_flag("allow_missing", allow_missing)
    if isinstance(path, Checkpoint):
        opened = path
        if step is not None or item is not None or allow_missing or storage_options is not None:
            raise ValueError(
                "step, item, allow_missing and storage_options are for open(); this checkpoint is "
                "open"
            )
        opened.reader.check_complete()
    else:
        opened = open_whole(path, step, item, allow_missing, storage_options)
    with shown(progress, "load") as callback:
        if out is not None:
            return load_into(opened, out, partial, callback)
        if target is not None:
            return load_like(opened, target, partial, casting, callback)
        if include is None and framework in (None, "numpy") and dtype is None and sharding is None:
            warn_of_lost_keys(opened.reader, opened.path, None)
            return opened.reader.load(callback)
        return _converted(opened, include, framework, dtype, sharding, casting, callback)


def _converted(
    opened: Checkpoint,
    include: Any,
    framework: str | None,
    dtype: Any,
    sharding: Any,
    casting: str,
    callback: Any,
) -> Any:
    reader = opened.reader
    globs = included(include)
    if globs is None:
        indices = list(range(len(reader)))
    else:
        indices = reader.select(globs)
        if not indices:
            raise KeyError(f"no leaf matches {', '.join(map(repr, globs))}")
    warn_of_lost_keys(reader, opened.path, None if globs is None else indices, 4)
    structure = reader.structure(True)
    return read_leaves(reader, indices, structure, framework, dtype, sharding, casting, callback)
