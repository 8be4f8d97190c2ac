"""Paths as the caller expects them, and whether a directory is a finished checkpoint."""

import os
from typing import Any

from cairn.orbax._impl.paths.store_path import StorePath, is_store_url

TEMPORARY_MARK = ".orbax-checkpoint-tmp"
STEP_METADATA_FILE = "_CHECKPOINT_METADATA"
TREE_METADATA_FILE = "_METADATA"
STRINGS_FILE = "_strings.json"
COMMIT_FILE = "commit_success.txt"
OCDBT_MANIFEST = "manifest.ocdbt"


def as_path(path: Any) -> Any:
    """An absolute path: epath.Path if etils is installed, else pathlib.Path.

    StorePath for the URL of an object store. Raises NotImplementedError for other URLs.
    """
    text = os.fspath(path)
    if is_store_url(text):
        return StorePath(text)
    if "://" in text and not text.startswith("file://"):
        raise NotImplementedError(
            f"{text}: cairn.orbax takes local directories, s3://, gs://, hf:// and memory://; "
            "cairn.open and cairn.load read http:// and https://, too"
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


def is_finalized(path: Any) -> bool:
    """Whether a directory is a checkpoint and no save is unfinished there."""
    path = as_path(path)
    if is_gcs_path(path):
        return bool((path / COMMIT_FILE).exists())
    return bool(path.is_dir()) and not is_temporary(path)


def is_gcs_path(path: Any) -> bool:
    """Whether a path is in Google's object store."""
    return str(path).startswith(("gs://", "/gs/"))
