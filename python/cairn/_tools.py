"""verify, diff, stats, du and steps. Reports are those of `--json` (docs/reference/json.md)."""

from __future__ import annotations

import os

from cairn import _cairn
from cairn._arguments import check_flag, excluded, included
from cairn._checkpoint import Checkpoint, open
from cairn._long_calls import shown

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from typing import Any

    from cairn._options import StoreOptions


class VerifyReport:
    """The result of verify(). True if nothing is damaged and everything could be checked."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @property
    def damaged(self) -> bool:
        return bool(self.data["verdict"] == "damaged")

    @property
    def findings(self) -> list[dict[str, Any]]:
        """Each with severity, tensor, file, offset and message."""
        return list(self.data["findings"])

    def __bool__(self) -> bool:
        return bool(self.data["ok"])

    def __repr__(self) -> str:
        state = "ok" if self else "damaged" if self.damaged else "not all checked"
        return f"<cairn.VerifyReport {state}: {len(self.findings)} findings>"


class DiffReport:
    """How two checkpoints differ. `equal` is True if they do not."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data

    @property
    def equal(self) -> bool:
        return bool(self.data["equal"])

    @property
    def non_finite(self) -> int:
        """The number of leaves in which a NaN or an infinity differs. They come first."""
        return int(self.data["non_finite"])

    def _repr_html_(self) -> str:
        from cairn._html import diff_drawn

        return diff_drawn(self)

    def __repr__(self) -> str:
        return f"<cairn.DiffReport {'equal' if self.equal else 'different'}>"


def verify(
    path: str | os.PathLike[str],
    *,
    step: int | None = None,
    item: str | None = None,
    strict: bool = False,
    storage_options: StoreOptions | None = None,
    progress: Any = None,
) -> VerifyReport:
    """Reads all stored bytes and checks everything that can be checked. Damage is in the report.

    strict: a note (a file that nothing refers to) counts as damage. path, storage_options: as in
    cairn.open.
    """
    with shown(progress, "verify") as callback:
        text = _cairn.verify_json(path, step, item, strict, storage_options, callback)
    return VerifyReport(parsed(text))


def diff(
    a: str | os.PathLike[str],
    b: str | os.PathLike[str],
    *,
    include: str | list[str] | None = None,
    exclude: str | list[str] | None = None,
    rtol: float = 0.0,
    atol: float = 0.0,
    ignore_dtype: bool = False,
    allow_missing: bool = False,
    dequantize: bool = False,
    storage_options: StoreOptions | None = None,
    progress: Any = None,
) -> DiffReport:
    """Compares two checkpoints of any format: structure and values.

    allow_missing: compare what is left of a checkpoint that lacks a part it records; the report
    names the part. False: that is a CorruptionError. dequantize: compare quantised weights as
    floating-point arrays, as Checkpoint.dequantized(). storage_options: as in cairn.open, for the
    URLs among the two paths.
    """
    check_flag("dequantize", dequantize)
    with shown(progress, "diff") as callback:
        text = _cairn.diff_json(
            a,
            b,
            included(include) or [],
            excluded(exclude),
            rtol,
            atol,
            ignore_dtype,
            allow_missing,
            bool(dequantize),
            storage_options,
            callback,
        )
    return DiffReport(parsed(text))


def stats(
    checkpoint: Checkpoint | str | os.PathLike[str],
    *globs: str,
    storage_options: StoreOptions | None = None,
) -> list[dict[str, Any]]:
    """Minimum, maximum, mean, deviation, zeros, NaN, Inf and a histogram of each array.

    checkpoint: a path or URL, or what cairn.open returned. storage_options: as in cairn.open.
    """
    reader = _opened(checkpoint, storage_options).reader
    chosen = reader.select(list(globs)) if globs else range(len(reader))
    arrays = [i for i in chosen if reader.tensor(i).kind == "array"]
    return list(parsed(reader.stats_json(arrays)))


def du(
    checkpoint: Checkpoint | str | os.PathLike[str],
    *,
    include: str | list[str] | None = None,
    exclude: str | list[str] | None = None,
    depth: int = 2,
    storage_options: StoreOptions | None = None,
) -> dict[str, Any]:
    """Sums of elements and bytes by module and by element type. Reads metadata only.

    Returns a dict with "parameters" and "optimizer" (sums over the leaves of each kind),
    "unreadable" (a number of leaves), "dtypes" (sums for each element type) and "modules" (sums of
    the whole, and "children": those of each module, the largest first). Sums are "name", "leaves",
    "elements", "nbytes" (bytes in memory) and "stored_nbytes" (bytes in the store).

    Args:
      checkpoint: a path or URL, or what cairn.open returned, also for a step, an item or a
        version.
      include: globs of the names to count, or one glob; None: all. An empty list is a KeyError.
      exclude: globs of the names to leave out, or one.
      depth: the most levels of modules, up to 64. 0: only the sums.
      storage_options: how to reach the store of a URL, as in cairn.open.

    Raises:
      KeyError: include and exclude select nothing of a checkpoint that has leaves.
      ValueError: depth is negative. Others as cairn.open.
    """
    if not isinstance(depth, int) or depth < 0:
        raise ValueError(f"depth: expected an int that is not negative, not {depth!r}")
    reader = _opened(checkpoint, storage_options).reader
    wanted, unwanted = included(include) or [], excluded(exclude)
    chosen = reader.select(wanted, unwanted)
    if not chosen and len(reader) and (wanted or unwanted):
        raise KeyError(f"no leaf is selected by include={wanted!r}, exclude={unwanted!r}")
    return dict(parsed(reader.usage_json(chosen, depth)))


def _opened(
    checkpoint: Checkpoint | str | os.PathLike[str], storage_options: StoreOptions | None
) -> Checkpoint:
    if not isinstance(checkpoint, Checkpoint):
        return open(checkpoint, storage_options=storage_options)
    if storage_options is not None:
        raise ValueError("storage_options is for open(); this checkpoint is open")
    return checkpoint


def steps(
    directory: str | os.PathLike[str], *, storage_options: StoreOptions | None = None
) -> list[dict[str, Any]]:
    """The steps of a directory or of a URL, unfinished ones included.

    Returns what `cairn steps --json` shows. storage_options: as in cairn.open.
    """
    return list(parsed(_cairn.steps_json(os.fspath(directory), storage_options)))


def parsed(text: str) -> Any:
    """The value of a JSON text."""
    import json

    return json.loads(text)
