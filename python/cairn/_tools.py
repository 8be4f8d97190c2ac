"""verify, diff, convert, stats and steps. Reports are those of `--json` (docs/cli.md)."""

from __future__ import annotations

import os

from cairn import _cairn
from cairn._arguments import check_flag, excluded, included
from cairn._checkpoint import Checkpoint, open
from cairn._progress import shown

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from typing import Any


class VerifyReport:
    """What verify() found. True in a condition if nothing is damaged and all could be checked."""

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

    def __repr__(self) -> str:
        return f"<cairn.DiffReport {'equal' if self.equal else 'different'}>"


def verify(
    path: str | os.PathLike[str],
    *,
    step: int | None = None,
    item: str | None = None,
    strict: bool = False,
    progress: Any = None,
) -> VerifyReport:
    """Reads all stored bytes and checks everything that can be checked. Damage is in the report.

    strict: a note (a file that nothing refers to) counts as damage.
    """
    with shown(progress, "verify") as callback:
        text = _cairn.verify_json(path, step, item, strict, callback)
    return VerifyReport(_parsed(text))


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
    progress: Any = None,
) -> DiffReport:
    """Compares two checkpoints of any format: structure and values.

    allow_missing: compare what is left of a checkpoint that lacks a part it records; the report
    names the part. False: that is a CorruptionError.
    """
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
            callback,
        )
    return DiffReport(_parsed(text))


def convert(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    to: str = "",
    step: int | None = None,
    item: str | None = None,
    include: str | list[str] | None = None,
    exclude: str | list[str] | None = None,
    rename: list[tuple[str, str]] | None = None,
    nest: str = "",
    dtype: str | None = None,
    skip_unsupported: bool = False,
    follow_links: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    allow_missing: bool = False,
    progress: Any = None,
) -> dict[str, Any]:
    """Writes a checkpoint in another format, in bounded memory; returns what was written.

    Args:
      source: a checkpoint of any format.
      target: the path to write.
      to: "orbax", "orbax-zarr3", "orbax-files", "safetensors", "tensorflow", "msgpack" or "npz";
        "": by the end of the target's name.
      step: the step to read below a directory of steps; None: the latest.
      item: the item to read of a checkpoint that has several.
      include: globs of the names to write, or one glob; None: all. An empty list is a KeyError.
      exclude: globs of the names to leave out, or one.
      rename: pairs of a regular expression and its replacement, as re.sub takes them.
      nest: a separator at which flat names become a nested tree.
      dtype: a type to which floating-point arrays are converted.
      skip_unsupported: leave out what the format cannot hold, and list it.
      follow_links: copy what symbolic links in items lead to, even out of the checkpoint. By
        default, such a link is a RuntimeError.
      overwrite: replace an older checkpoint, once the new one is complete.
      dry_run: decide and report, but write nothing.
      allow_missing: write what is left of a checkpoint that lacks a part it records; "left_out"
        names the part. False: that is a CorruptionError.
      progress: True (a bar), or a function of bytes done and bytes in total.
    """
    check_flag("overwrite", overwrite)
    with shown(progress, "convert") as callback:
        text = _cairn.convert_json(
            source,
            target,
            step,
            item,
            to,
            included(include) or [],
            excluded(exclude),
            rename or [],
            nest,
            dtype,
            skip_unsupported,
            follow_links,
            overwrite,
            dry_run,
            allow_missing,
            callback,
        )
    return dict(_parsed(text))


def stats(checkpoint: Checkpoint | str | os.PathLike[str], *globs: str) -> list[dict[str, Any]]:
    """Minimum, maximum, mean, deviation, zeros, NaN, Inf and a histogram of each array."""
    opened = checkpoint if isinstance(checkpoint, Checkpoint) else open(checkpoint)
    reader = opened.reader
    chosen = reader.select(list(globs)) if globs else range(len(reader))
    arrays = [i for i in chosen if reader.tensor(i).kind == "array"]
    return list(_parsed(reader.stats_json(arrays)))


def steps(directory: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The steps of a directory, unfinished ones included: what `cairn steps --json` shows."""
    return list(_parsed(_cairn.steps_json(directory)))


def _parsed(text: str) -> Any:
    import json

    return json.loads(text)
