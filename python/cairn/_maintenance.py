"""Conversions and maintenance. Reports are those of `--json` (docs/reference/json.md)."""

from __future__ import annotations

import os

from cairn import _cairn
from cairn._arguments import check_flag, excluded, included
from cairn._checkpoint import Checkpoint
from cairn._long_calls import shown
from cairn._save import json_text
from cairn._tools import parsed

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any, Literal

    from typing_extensions import Unpack

    from cairn._options import ConvertOptions, ReshardOptions, StoreOptions

    MergeSource = str | os.PathLike[str] | Checkpoint

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
    transform: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    model: str | os.PathLike[str] | None = None,
    reverse: bool | None = None,
    set: Mapping[str, Any] | None = None,
    config: str | os.PathLike[str] | None = None,
    hf_assets: str | os.PathLike[str] | None = None,
    dtype: str | None = None,
    metadata: Mapping[str, Any] | None = None,
    skip_unsupported: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    allow_missing: bool = False,
    progress: Any = None,
    **options: Unpack[ConvertOptions],
) -> dict[str, Any]:
    """Writes a checkpoint in another format, in bounded memory; returns what was written.

    The target appears complete or not at all. An option that its format does not have is a
    ValueError.

    Args:
      source: a checkpoint of any format: a path or URL.
      target: the path or the URL (s3://, gs://) to write.
      to: "orbax", "orbax-zarr3", "orbax-files", "safetensors", "tensorflow", "msgpack", "npz",
        "torch" (a file of torch.save) or "dcp" (a folder of torch.distributed.checkpoint); "": by
        the end of the target's name.
      step: the step to read below a directory of steps; None: the latest.
      item: the item to read of a checkpoint that has several.
      include: globs of the names to write, or one glob; None: all. An empty list is a KeyError.
      exclude: globs of the names to leave out, or one.
      rename: pairs of a regular expression and its replacement, as re.sub takes them.
      nest: a separator at which flat names become a nested tree.
      transform: rules that rename, drop, cast, stack, split, ... leaves: the path of a JSON file,
        or the rules as a dict (docs/guides/transforms.md). The other options apply to their output.
      model: a map between the names and shapes of a model in two programs, such as "llama" (see
        models()), or the path of one (docs/guides/model-maps.md). Not with transform. If it leads
        to Hugging Face, and neither `to` nor an extension says otherwise, the target is a folder
        for from_pretrained.
      reverse: for rules with two sides: from the second side to the first (True), or from the first
        to the second (False). None: False for transform; a model map sees whose names the source
        has.
      set: options and values of the map, by name: {"rope": "half"}.
      config: the model's config.json; None: the one beside the source, or in hf_assets.
      hf_assets: a folder of a model, whose config.json, tokenizer and chat template are copied; the
        target is then a folder for from_pretrained.
      dtype: a type to which floating-point arrays are converted.
      metadata: entries of a safetensors file's __metadata__, as text: {"format": "pt"}. They are
        added to those of the source.
      skip_unsupported: leave out what the format cannot hold, and list it.
      overwrite: replace an older checkpoint, once the new one is complete.
      dry_run: decide and report, but write nothing.
      allow_missing: write what is left of a checkpoint that lacks a part it records; "left_out"
        names the part. False: that is a CorruptionError.
      progress: True (a bar), or a function of bytes done and bytes in total. An exception of the
        function stops the work, and nothing is written; if it came too late for that, the target is
        complete, and the exception is a warning.
      **options: of safetensors and TensorFlow: shard_bytes (the largest size of a file in bytes).
        Of msgpack: dialect ("flax", "orbax"). Of TensorFlow: object_graph and latest, as in
        cairn.tensorflow.save (True). Of Orbax: compression, chunk_bytes, target_file_bytes,
        durability, commit_protocol, as in save(); as_item (a name: the tree becomes this item);
        follow_links (False: a symbolic link in an item is a RuntimeError; True: what it leads to is
        copied, even from outside). Of the source: allow_uncommitted, metadata_key, generation,
        commit_time_ns, as in open(); dequantize (True: as Checkpoint.dequantized(), in the type
        dtype; "dequantized" of the result lists the weights). storage_options: how to reach the
        stores of URLs, as in open(); target_storage_options: that of the target, if it differs.
        threads (0: one for each core), memory (bytes for the whole call; None: 1 GiB; at least
        64 MiB are used).

    Returns:
      a dict with "format", "files", "tensors" (a number), "bytes" and the rest of what
      `cairn convert --json` prints.

    Raises:
      FileNotFoundError: no source, step or item; include and exclude select nothing.
      FileExistsError: the target exists, and overwrite is False or does not allow it.
      ValueError: the target cannot hold a leaf, named; names collide; a wrong option or rule.
      CorruptionError: the source is damaged, or lacks a part that it records.
    """
    check_flag("overwrite", overwrite)
    chosen: dict[str, Any] = {
        "to": to,
        "step": step,
        "item": item,
        "include": included(include),
        "exclude": excluded(exclude),
        "rename": rename,
        "nest": nest,
        "dtype": dtype,
        "skip_unsupported": skip_unsupported,
        "overwrite": bool(overwrite),
        "dry_run": dry_run,
        "allow_missing": allow_missing,
        **_rules(transform),
        **_map_options(transform, model, reverse, set, config, hf_assets),
        **options,
    }
    if metadata is not None:
        chosen["metadata"] = [(str(key), str(value)) for key, value in _pairs("metadata", metadata)]
    with shown(progress, "convert") as callback:
        text = _cairn.convert_json(os.fspath(source), os.fspath(target), chosen, callback)
    return dict(parsed(text))


def merge(
    sources: MergeSource | Sequence[MergeSource],
    target: str | os.PathLike[str],
    *,
    weights: Sequence[float] | None = None,
    ema: float | None = None,
    average_last: int | None = None,
    base: MergeSource | None = None,
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
    and everything beside the leaves come from the first checkpoint. The target appears complete or
    not at all; it may not be one of the sources.

    Args:
      sources: checkpoints of any format: paths, URLs, or what cairn.open returned.
      target: the path or the URL (s3://, gs://) to write.
      weights: one factor for each source. The result is the sum of weights[i] * x[i]; the weights
        need not sum to 1. With base, they are the a[i] there. None: the mean; with base, 1 for
        each.
      ema: the decay of a moving average in the order of the sources: e = x[0], then
        e = ema * e + (1 - ema) * x[i].
      average_last: merge this many steps, the last complete ones; `sources` is then a directory of
        steps.
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
        chosen["metadata"] = [(str(key), str(value)) for key, value in _pairs("metadata", metadata)]
    given = [sources] if isinstance(sources, (str, os.PathLike, Checkpoint)) else list(sources)
    if average_last is not None and (len(given) != 1 or isinstance(given[0], Checkpoint)):
        raise ValueError("average_last: expected the path of one directory of steps as the source")
    native = [_native(source) for source in given]
    native_base = None if base is None else _native(base)
    _check_options_of_paths(chosen, [*native, native_base])
    with shown(progress, "merge") as callback:
        text = _cairn.merge_json(native, native_base, os.fspath(target), chosen, callback)
    return dict(parsed(text))


def repair(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    others: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None = None,
    fill: str | os.PathLike[str] | None = None,
    to: str = "",
    step: int | None = None,
    item: str | None = None,
    include: str | list[str] | None = None,
    exclude: str | list[str] | None = None,
    dtype: str | None = None,
    skip_unsupported: bool = False,
    overwrite: bool = False,
    dry_run: bool = False,
    progress: Any = None,
    **options: Unpack[ConvertOptions],
) -> dict[str, Any]:
    """Writes what is left of a damaged checkpoint as a new one (docs/guides/repair.md).

    Checks every byte and recovers each leaf of which it finds an intact copy. It searches the
    checkpoint as it is, older generations of its databases, the databases of the processes that
    wrote it, and files whose index, directory or end is damaged. It never writes a value that a
    checksum or the structure shows as damaged. The source does not change. The target appears
    complete or not at all.

    Args:
      source: the damaged checkpoint, of any format: a path or URL. Of a directory of steps: the
        latest one.
      target: the path or the URL (s3://, gs://) to write.
      others: checkpoints of the same run, best first, or one. If the source has no intact copy of a
        leaf, the first of them that has one gives it.
      fill: what replaces the lost elements of arrays that are partly lost: "nan", "zero", or the
        path of a checkpoint with the elements. None: such arrays are left out.
      to: as in convert(); "": by the end of the target's name, else the format of the source.
      step: the step to read below a directory of steps. item: the item of a checkpoint that has
        several.
      include: globs of the names to write, or one glob; None: all.
      exclude: globs of the names to leave out, or one.
      dtype: a type to which floating-point arrays are converted.
      skip_unsupported: leave out what the format cannot hold, and list it.
      overwrite: replace an older checkpoint, once the new one is complete. It may not be the
        source.
      dry_run: decide and report, but write nothing.
      progress: as in convert().
      **options: as in convert(), without generation, commit_time_ns and dequantize.

    Returns:
      a dict with "leaves", a list of dicts: "name", "state" ("whole", "filled" or "lost"), "copy"
      (where it comes from; "": the source as it is), "checked" (whether checksums cover it), "why"
      (what is wrong in the source) and "lost" (boxes, each with "origin" and "shape"). "whole",
      "filled" and "lost" are their numbers, "notes" says what is wrong beside the leaves,
      "lacks_names" whether there may be more leaves, which are lost with their names, and "written"
      is what convert() returns.

    Raises:
      FileNotFoundError: no source, step or item.
      FileExistsError: the target exists, and overwrite is False or does not allow it.
      ValueError: the target overlaps the source; others as convert().
      CorruptionError: nothing of the source can be recovered.
    """
    check_flag("overwrite", overwrite)
    chosen: dict[str, Any] = {
        "to": to,
        "step": step,
        "item": item,
        "include": included(include),
        "exclude": excluded(exclude),
        "dtype": dtype,
        "skip_unsupported": skip_unsupported,
        "overwrite": bool(overwrite),
        "dry_run": dry_run,
        **options,
    }
    if others is not None:
        given = [others] if isinstance(others, (str, os.PathLike)) else list(others)
        chosen["others"] = [os.fspath(other) for other in given]
    if fill is not None:
        chosen["fill"] = os.fspath(fill)
    with shown(progress, "repair") as callback:
        text = _cairn.repair_json(os.fspath(source), os.fspath(target), chosen, callback)
    return dict(parsed(text))


def reshard(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    mesh: Mapping[str, int] | None = None,
    specs: Mapping[str, Sequence[str | Sequence[str] | None]] | None = None,
    to: str = "",
    step: int | None = None,
    item: str | None = None,
    overwrite: bool = False,
    dry_run: bool = False,
    allow_missing: bool = False,
    progress: Any = None,
    **options: Unpack[ReshardOptions],
) -> dict[str, Any]:
    """Writes an Orbax checkpoint again, in the chunks that other devices will read.

    Values, tree and metadata stay the same. Each chunk of the new checkpoint is what one device
    holds, or a divisor of it, and the new shardings are recorded. The target appears complete or
    not at all.

    Args:
      source: a checkpoint of any format: a path or URL.
      target: the folder to write: a path or a URL (s3://, gs://).
      mesh: the devices that will read it: the number of devices along each axis, {"x": 4, "y": 2}
        for devices 0 to 7. A jax.sharding.Mesh has it as `dict(mesh.shape)`. None: only the chunks
        change, and chunk_bytes is required.
      specs: for globs of names, the mesh axis of each dimension: None, a name, or several names:
        {"*.kernel": (None, "x")}. A jax.sharding.PartitionSpec is one, too. The first glob that
        matches an array counts, and each must match one. Other device arrays are replicated.
      to: "orbax", "orbax-zarr3" or "orbax-files"; "": as the source is stored.
      step: as in convert(). So are item, overwrite, allow_missing and progress.
      dry_run: decide and report the box of each array that a device reads, but write nothing.
      **options: as in convert(): compression, chunk_bytes (the largest size of a chunk, in bytes),
        target_file_bytes, as_item, follow_links, durability, commit_protocol, allow_uncommitted,
        metadata_key, generation, commit_time_ns, dequantize, storage_options,
        target_storage_options, threads, memory.

    Returns:
      a dict with "arrays" (each with name, dtype, shape, "box" and sharding), "device_bytes" (what
      each device reads) and the rest of what `cairn reshard --json` prints.

    Raises:
      ValueError: neither mesh nor chunk_bytes is given; specs without a mesh; a glob that matches
        no array; an axis that does not divide an array, named. Others as convert().
    """
    check_flag("overwrite", overwrite)
    chosen: dict[str, Any] = {
        "to": to,
        "step": step,
        "item": item,
        "mesh": None if mesh is None else _pairs("mesh", mesh),
        "specs": [(glob, _axes(glob, spec)) for glob, spec in _pairs("specs", specs or {})],
        "overwrite": bool(overwrite),
        "dry_run": dry_run,
        "allow_missing": allow_missing,
        **options,
    }
    with shown(progress, "reshard") as callback:
        text = _cairn.reshard_json(os.fspath(source), os.fspath(target), chosen, callback)
    return dict(parsed(text))


def prune(
    directory: str | os.PathLike[str],
    *,
    keep_last: int | None = None,
    keep_every: int | None = None,
    best: str | None = None,
    best_mode: Literal["max", "min"] = "max",
    dry_run: bool = False,
    storage_options: StoreOptions | None = None,
) -> list[dict[str, Any]]:
    """Removes the complete steps of a training run that no option keeps, the oldest first.

    At least one of keep_last, keep_every and best must be given. The newest complete step is always
    kept, and so is a step to which a symbolic link leads. Incomplete steps stay; clean() removes
    those of interrupted saves. Do not prune a directory while a training run saves to it, unless
    its own policy keeps more.

    Args:
      directory: of a CheckpointManager, Orbax's or Cairn's; a path or a URL (s3://, gs://).
      keep_last: keep the last steps, this many.
      keep_every: keep the steps that are multiples of this number.
      best: keep the step with the best metric of this name.
      best_mode: "max": the largest metric is the best; "min": the smallest.
      dry_run: report what would be removed, and remove nothing.
      storage_options: how to reach the store of a URL, as in open().

    Returns:
      a list with a dict for each step: "step", "path", "nbytes" (that its removal frees),
      "outcome" ("kept", "removed", "refused"; in a dry run the expected one) and "why" (it is kept
      or refused, or None). A step is refused, and stays, if its folder holds something besides a
      checkpoint or cannot be removed.

    Raises:
      FileNotFoundError: there is no such directory, or no step has the metric.
      ValueError: no option says what to keep, a number is out of range, or the path is a
        checkpoint.
    """
    chosen = {
        "keep_last": keep_last,
        "keep_every": keep_every,
        "best": best,
        "best_mode": best_mode,
        "dry_run": dry_run,
    }
    return list(parsed(_cairn.prune_json(os.fspath(directory), chosen, storage_options)))


def clean(
    directory: str | os.PathLike[str],
    *,
    dry_run: bool = False,
    storage_options: StoreOptions | None = None,
) -> list[dict[str, Any]]:
    """Removes what interrupted saves have left in a directory of checkpoints, and beside it.

    A leftover that is complete under a temporary name gets its final name. Cairn detects its own
    saves and deletions that are in progress, but not those of Orbax: do not clean while Orbax saves
    or deletes there. In a store, Cairn cannot distinguish a running save from a leftover: clean
    only while nobody saves there.

    Args:
      directory: of checkpoints or steps, or the path of one checkpoint; or a URL (s3://, gs://).
      dry_run: report what would be done, and do nothing.
      storage_options: how to reach the store of a URL, as in open().

    Returns:
      a list with a dict for each leftover: "path", "bytes", "outcome" ("removed", "restored",
      "in use", "refused"; in a dry run the expected one), "restored" (a bool) and "why". A leftover
      that holds something besides a checkpoint is refused, and stays.

    Raises:
      FileNotFoundError: neither the directory nor a leftover of it exists.
    """
    check_flag("dry_run", dry_run)
    path = os.fspath(directory)
    return list(parsed(_cairn.clean_json(path, bool(dry_run), False, storage_options)))


def compact(
    path: str | os.PathLike[str],
    *,
    step: int | None = None,
    item: str | None = None,
    remove_orphans: bool = False,
    progress: Any = None,
    storage_options: StoreOptions | None = None,
) -> list[dict[str, Any]]:
    """Rewrites the OCDBT databases of a checkpoint into few files with the newest version only.

    Each database is replaced completely or stays unchanged. A process that is reading an older
    version may then fail. A damaged database is not compacted. In a store, compact only while
    nobody saves to the same place.

    Args:
      path: an Orbax checkpoint, a directory of steps, or an OCDBT database; or a URL (s3://,
        gs://).
      step: the step to compact below a directory of steps; None: the latest.
      item: the item to compact; None: all of them.
      remove_orphans: also remove data files that no version refers to. Safe only while no program
        writes to the checkpoint.
      progress: as in convert().
      storage_options: how to reach the store of a URL, as in open().

    Returns:
      a list with a dict for each database: "path", "keys", "files_before", "bytes_before",
      "files_after" and "bytes_after".

    Raises:
      FileNotFoundError: there is no such checkpoint, step or item.
      RuntimeError: the checkpoint has no OCDBT database. Others as open().
    """
    chosen = {"step": step, "item": item, "remove_orphans": remove_orphans}
    with shown(progress, "compact") as callback:
        text = _cairn.compact_json(os.fspath(path), chosen, storage_options, callback)
    return list(parsed(text))


def _native(source: MergeSource) -> Any:
    """The reader of an opened checkpoint, or the path."""
    return source.reader if isinstance(source, Checkpoint) else os.fspath(source)


def _check_options_of_paths(chosen: dict[str, Any], sources: list[Any]) -> None:
    """Raises ValueError for options of opening if every source is open."""
    if any(isinstance(source, (str, bytes)) for source in sources):
        return
    for name in _OF_PATHS:
        if chosen.get(name):
            raise ValueError(f"{name}: an option of open(); all of these checkpoints are open")


def _rules(transform: Any) -> dict[str, Any]:
    """The native option for rules: a path, or their JSON."""
    if transform is None or isinstance(transform, (str, bytes, os.PathLike)):
        return {"transform": transform}
    return {"rules": json_text("transform", transform)}


def _map_options(
    transform: Any, model: Any, reverse: Any, values: Any, config: Any, hf_assets: Any
) -> dict[str, Any]:
    """The native options of rules with two sides."""
    if model is not None and transform is not None:
        raise ValueError("give transform or model, not both")
    chosen: dict[str, Any] = {}
    if model is not None:
        chosen["model"] = os.fspath(model)
    if reverse is not None:
        chosen["reverse"] = reverse
    if values is not None:
        chosen["values"] = [
            (str(name), value if isinstance(value, str) else json_text("set", value))
            for name, value in _pairs("set", values)
        ]
    if config is not None:
        chosen["config"] = config
    if hf_assets is not None:
        chosen["hf_assets"] = hf_assets
    return chosen


def models(model: str | os.PathLike[str] | None = None) -> list[dict[str, Any]]:
    """Returns the maps that `convert(..., model=)` takes, or the one of that name or file.

    Returns:
      for each map, a dict with "name", "title", "first_side", "second_side", "sources", "tested",
      and "options": dicts with "name", "values" (JSON texts; empty: any), "default" (an expression)
      and "help".

    Raises:
      FileNotFoundError: there is no map of that name.
      ValueError: the file is not a map.
    """
    return list(parsed(_cairn.models_json("" if model is None else os.fspath(model))))


def _pairs(name: str, mapping: Any) -> list[tuple[Any, Any]]:
    """The items of an argument that is a mapping."""
    if not hasattr(mapping, "items"):
        raise ValueError(f"{name}: expected a dict, not {mapping!r}")
    return list(mapping.items())


def _axes(glob: str, spec: Any) -> list[list[str]]:
    """The mesh axes of each dimension, outermost first."""
    try:
        if isinstance(spec, str):
            raise TypeError
        return [[] if one is None else [one] if isinstance(one, str) else list(one) for one in spec]
    except TypeError:
        raise ValueError(
            f"specs: {glob!r}: expected the mesh axis of each dimension, such as ('x', None), not "
            f"{spec!r}"
        ) from None
