"""FileOptions.path_permission_mode: who may use the directories of a checkpoint."""

import os
import stat
from typing import Any


def mode_of(file_options: Any) -> "int | None":
    """The mode of new directories that options ask for; None: that of the process."""
    return getattr(file_options, "path_permission_mode", None)


def restrict(directory: Any, mode: "int | None") -> None:
    """Gives a directory that was just made the mode, less the umask of the process, as mkdir does.

    The directory has what the umask allows, so its own bits stand for the umask.
    """
    if mode is None:
        return
    current = stat.S_IMODE(os.stat(directory).st_mode)
    os.chmod(directory, (current & ~0o777) | (current & mode & 0o777))


def make(directory: Any, mode: "int | None") -> None:
    """Makes a directory with the mode, and its parents without it, if it is not there."""
    if not os.path.isdir(directory):
        os.makedirs(directory, exist_ok=True)  # by another process in between
        restrict(directory, mode)
