"""merge: one checkpoint that is computed from several. The report is that of `convert`."""

from __future__ import annotations

import os

from cairn import _cairn
from cairn._arguments import check_flag, excluded, included
from cairn._checkpoint import Checkpoint
from cairn._progress import shown
from cairn._tools import parsed

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from typing_extensions import Unpack

    from cairn._options import ConvertOptions

    Source = str | os.PathLike[str] | Checkpoint

# Options of opening, which count for the sources that are paths.
_OF_PATHS = (
    "step",
    "item",
    "allow_missing",
    "allow_uncommitted",
    "metadata_key",
    "generation",
    "commit_time_ns",
    "dequantize",
)


def merge(
    sources: Source | Sequence[Source],
    target: str | os.PathLike[str],
    *,
    weights: Sequence[float] | None = None,
    ema: float | None = None,
    average_last: int | None = None,
    base: Source | None = None,
    scale: float | None = None,
    take_first: bool = False,
    to: str = "",
    step: int | None = None,
    item: str | None = None,
    include: str | list[str] | None = None,
    exclude: str | list[str] | None = None,
    dtype: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    skip_unsupported: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    allow_missing: bool = False,
    progress: Any = None,
    **options: Unpack[ConvertOptions],
) -> dict[str, Any]:
    """Writes one checkpoint that is computed from several: their mean, or another sum.

    Floating-point and complex leaves are computed in float64 and rounded once, in bounded memory.
    Names, shapes and kinds of types must agree, and other leaves must be equal. The tree, the types
    and everything beside the leaves are those of the first checkpoint. The target appears complete
    or not at all; it may not be one of the sources.

    Args:
      sources: checkpoints of any format: paths, URLs, or what cairn.open returned.
      target: the path or the URL (s3://, gs://) to write.
      weights: sum of weights[i] * x[i], one for each source, as they are: they need not sum to 1.
        With base, they are its a[i]. None: the mean, and 1 with base.
      ema: the decay of a moving average in the order of the sources: e = x[0], then
        e = ema * e + (1 - ema) * x[i].
      average_last: merge the last steps, this many, of the directory of steps that `sources` is.
      base: task arithmetic: base + the sum of scale * a[i] * (x[i] - base).
      scale: the factor of base; None: 1.
      take_first: where leaves that are not floating-point differ, take those of the first source;
        "taken_first" of the result lists them. False: that is a ValueError that names them.
      include: globs of the names to merge and write, or one glob; None: all. Other leaves are not
        compared. An empty list is a KeyError.
      exclude: globs of the names to leave out, or one.
      dtype: the type of the merged arrays, but not of scalars; None: that of the first source.
      to: as in convert(). So are metadata, skip_unsupported, overwrite, dry_run, progress.
      step: the step to read of each source that is a path. item, allow_missing: as in open().
      **options: as in convert(): shard_bytes, dialect, object_graph, latest, compression,
        chunk_bytes, target_file_bytes, durability, commit_protocol, as_item, follow_links,
        allow_uncommitted, metadata_key, generation, commit_time_ns, dequantize, storage_options,
        target_storage_options, threads, memory (of the whole call, without what opened checkpoints
        take).

    Returns:
      what convert() returns; "taken_first" is a list of names.

    Raises:
      FileNotFoundError: no source, step or item; too few complete steps; include and exclude select
        nothing.
      FileExistsError: the target exists, and overwrite is False or does not allow it.
      ValueError: leaves that do not agree or that differ, named; the target is one of the sources;
        options that make no sense together. Others as convert().
      CorruptionError: a source is damaged, or lacks a part that it records.
    """
    check_flag("overwrite", overwrite)
    chosen: dict[str, Any] = {
        "weights": None if weights is None else [float(weight) for weight in weights],
        "ema": ema,
        "average_last": average_last,
        "scale": scale,
        "take_first": take_first,
        "to": to,
        "step": step,
        "item": item,
        "include": included(include),
        "exclude": excluded(exclude),
        "dtype": dtype,
        "skip_unsupported": skip_unsupported,
        "overwrite": bool(overwrite),
        "dry_run": dry_run,
        "allow_missing": allow_missing,
        **options,
    }
    if metadata is not None:
        if not hasattr(metadata, "items"):
            raise ValueError(f"metadata: expected a dict, not {metadata!r}")
        chosen["metadata"] = [(str(key), str(value)) for key, value in metadata.items()]
    given = [sources] if isinstance(sources, (str, os.PathLike, Checkpoint)) else list(sources)
    if average_last is not None and (len(given) != 1 or isinstance(given[0], Checkpoint)):
        raise ValueError("average_last: expected the path of one directory of steps as the source")
    native = [_native(source) for source in given]
    native_base = None if base is None else _native(base)
    _check_options_of_paths(chosen, [*native, native_base])
    with shown(progress, "merge") as callback:
        text = _cairn.merge_json(native, native_base, os.fspath(target), chosen, callback)
    return dict(parsed(text))


def _native(source: Source) -> Any:
    """The reader of an opened checkpoint, or the path."""
    return source.reader if isinstance(source, Checkpoint) else os.fspath(source)


def _check_options_of_paths(chosen: dict[str, Any], sources: list[Any]) -> None:
    """Raises ValueError for options of opening if every source is open."""
    if any(isinstance(source, (str, bytes)) for source in sources):
        return
    for name in _OF_PATHS:
        if chosen.get(name):
            raise ValueError(f"{name}: an option of open(); all of these checkpoints are open")
