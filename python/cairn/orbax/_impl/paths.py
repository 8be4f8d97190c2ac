"""Paths as the caller expects them, and whether a directory is a finished checkpoint."""

import dataclasses
import os
from typing import Any

TEMPORARY_MARK = ".orbax-checkpoint-tmp"
STEP_METADATA_FILE = "_CHECKPOINT_METADATA"
TREE_METADATA_FILE = "_METADATA"
COMMIT_FILE = "commit_success.txt"


def as_path(path: Any) -> Any:
    """An absolute path: epath.Path if etils is installed, else pathlib.Path.

    Raises NotImplementedError for an object store.
    """
    text = os.fspath(path)
    if "://" in text and not text.startswith("file://"):
        raise NotImplementedError(
            f"{text}: cairn.orbax works on local directories; cairn.open and cairn.load read URLs"
        )
    try:
        from etils import epath
    except ImportError:
        import pathlib

        return pathlib.Path(text.removeprefix("file://"))
    return epath.Path(text.removeprefix("file://"))


def is_temporary(path: Any) -> bool:
    """Whether a save has not been finished here."""
    return TEMPORARY_MARK in as_path(path).name


@dataclasses.dataclass(frozen=True)
class TemporaryPath:
    """The directory of a save that has not been finished."""

    path: Any

    def get(self) -> Any:
        """Where the save writes."""
        return self.path

    def get_final(self) -> Any:
        """Where the checkpoint would be if the save had been finished."""
        return self.path.parent / self.path.name.partition(TEMPORARY_MARK)[0]


def all_temporary_paths(root_directory: Any) -> "list[TemporaryPath]":
    """The unfinished saves of a directory. Nothing if it is missing."""
    root = as_path(root_directory)
    paths = root.iterdir() if root.exists() else ()
    return [TemporaryPath(path) for path in paths if is_temporary(path)]


def is_finalized(path: Any) -> bool:
    """Whether a directory is a checkpoint and no save is unfinished there."""
    path = as_path(path)
    return bool(path.is_dir()) and not is_temporary(path)
