"""Removes steps, and what unfinished saves have left. The native part removes only checkpoints."""

import os
from typing import Any

from cairn import _cairn


def remove_steps(paths: "list[Any]", subdirectory: "str | None") -> None:
    """Removes each step, or moves it to the subdirectory beside it.

    Raises FileExistsError for a directory that holds anything besides a checkpoint. The other steps
    are removed before.
    """
    refused = None
    for path in paths:
        try:
            if subdirectory:
                _cairn.set_checkpoint_aside(os.fspath(path), subdirectory)
            else:
                _cairn.remove_checkpoint(os.fspath(path))
        except OSError as error:
            refused = refused or error
    if refused is not None:
        raise refused


def remove_unfinished(directory: Any) -> None:
    """Removes what interrupted saves have left, unless a save is in progress."""
    _cairn.clean_json(os.fspath(directory), False)
