"""Removes steps, and what unfinished saves have left."""

import os
import shutil
from typing import Any

from cairn.orbax._impl.paths import TEMPORARY_MARK


def remove_steps(paths: "list[Any]", kept: Any) -> None:
    """Renames each step, so that it is gone at once. Then removes it, unless `kept` takes it."""
    for path in paths:
        if kept is not None:
            os.makedirs(kept, exist_ok=True)
            shutil.rmtree(kept / path.name, ignore_errors=True)
            os.rename(path, kept / path.name)
            continue
        removed = f"{os.fspath(path)}.deleted{TEMPORARY_MARK}"
        os.rename(path, removed)
        shutil.rmtree(removed)


def remove_unfinished(directory: Any) -> None:
    """Removes the directories of unfinished saves."""
    for path in directory.iterdir():
        if TEMPORARY_MARK in path.name and path.is_dir():
            shutil.rmtree(path)
