"""FileOptions.path_permission_mode: who may use the directories of a checkpoint."""

import os
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.paths.store_path import is_store_url


def mode_of(file_options: Any) -> "int | None":
    """The mode of new directories that options ask for; None: that of the process."""
    return getattr(file_options, "path_permission_mode", None)


def restrict(directory: Any, mode: "int | None") -> None:
    """Gives a directory that was just made the mode, less the umask, as mkdir does."""
    if mode is not None:
        _cairn.restrict_permissions(directory, mode)


def make(directory: Any, mode: "int | None") -> None:
    """Makes a directory with the mode, and its parents without it, if it is not there.

    A store has no directories to make.
    """
    if is_store_url(directory):
        return
    if not os.path.isdir(directory):
        os.makedirs(directory, exist_ok=True)  # by another process in between
        restrict(directory, mode)
