"""The metadata of a step and of a run, and their files."""

import dataclasses
import json
import os
from typing import Any

from cairn.orbax._impl.base.step_statistics import SaveStepStatistics
from cairn.orbax._impl.paths.checkpoint_paths import STEP_METADATA_FILE, as_path
from cairn.orbax._impl.paths.store_path import is_store_url
from cairn.orbax._impl.paths.text_files import load_json

ROOT_METADATA_FILE = "_ROOT_METADATA"
LEGACY_ROOT_METADATA_FILE = "metadata"


@dataclasses.dataclass
class StepMetadata:
    """The metadata of one checkpoint: its handlers, items, metrics, times and custom metadata."""

    item_handlers: "dict[str, Any] | str | None" = None
    item_metadata: Any = None
    metrics: "dict[str, Any]" = dataclasses.field(default_factory=dict)
    performance_metrics: SaveStepStatistics = dataclasses.field(default_factory=SaveStepStatistics)
    init_timestamp_nsecs: "int | None" = None
    commit_timestamp_nsecs: "int | None" = None
    custom_metadata: "dict[str, Any]" = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class RootMetadata:
    """The metadata of a directory of steps."""

    internal_metadata: "dict[str, Any] | None" = dataclasses.field(default_factory=dict)
    custom_metadata: "dict[str, Any] | None" = dataclasses.field(default_factory=dict)


def serialize_root_metadata(metadata: RootMetadata) -> "dict[str, Any]":
    """The object of JSON of a directory's metadata."""
    return {
        "internal_metadata": metadata.internal_metadata or {},
        "custom_metadata": check_custom_metadata(metadata.custom_metadata),
    }


def deserialize_root_metadata(metadata_dict: "dict[str, Any]") -> RootMetadata:
    """The metadata in an object of JSON. Members of other names are custom metadata.

    Raises ValueError for other types, and for such members beside custom metadata.
    """
    internal = metadata_dict.get("internal_metadata")
    if not isinstance(internal, dict | None):
        raise ValueError(f"internal_metadata must be a dict, not {internal!r}")
    custom = check_custom_metadata(metadata_dict.get("custom_metadata"))
    known = ("internal_metadata", "custom_metadata")
    more = {name: value for name, value in metadata_dict.items() if name not in known}
    if custom and more:
        raise ValueError(f"unknown members beside custom_metadata: {', '.join(more)}")
    return RootMetadata(internal or {}, {**custom, **more})


def read_json(path: Any) -> "dict[str, Any] | None":
    """The JSON object of a file; None if there is no file, or it is not an object of JSON."""
    try:
        value = load_json(as_path(path))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def write_file(path: Any, text: str) -> None:
    """Writes a file and waits until it is on the disk."""
    if is_store_url(path):
        as_path(path).write_text(text)
        return
    with open(os.fspath(path), "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def read_step_metadata(path: Any) -> StepMetadata:
    """The metadata of a checkpoint, without that of its items; empty if it has none."""
    stored = read_json(as_path(path) / STEP_METADATA_FILE) or {}
    return StepMetadata(
        item_handlers=stored.get("item_handlers"),
        metrics=stored.get("metrics") or {},
        init_timestamp_nsecs=stored.get("init_timestamp_nsecs"),
        commit_timestamp_nsecs=stored.get("commit_timestamp_nsecs"),
        custom_metadata=stored.get("custom_metadata") or {},
    )


def check_custom_metadata(custom_metadata: Any) -> "dict[str, Any]":
    """ValueError for anything but a dict with str keys, TypeError for what JSON lacks."""
    if custom_metadata is None:
        return {}
    if not isinstance(custom_metadata, dict) or not all(
        isinstance(key, str) for key in custom_metadata
    ):
        raise ValueError(f"custom_metadata must be a dict with str keys, not {custom_metadata!r}")
    json.dumps(custom_metadata)
    return custom_metadata
