"""Removes steps, and what unfinished saves have left. It never removes other directories."""

import os
import time
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.base import monitoring
from cairn.orbax._impl.base.background import Background


def remove_steps(paths: "list[Any]", subdirectory: "str | None", is_in_place: bool = False) -> None:
    """Removes each step, or moves it to the subdirectory beside it.

    Files of others in a step go with it, as in Orbax. Raises FileExistsError for a directory
    without the files of a checkpoint. The other steps are removed before.
    """
    refused = None
    for path in paths:
        begin = time.time()
        try:
            if subdirectory:
                _cairn.set_checkpoint_aside(os.fspath(path), subdirectory)
            else:
                _cairn.remove_checkpoint(os.fspath(path), is_in_place)
            monitoring.step_removed(time.time() - begin)
        except OSError as error:
            refused = refused or error
    if refused is not None:
        raise refused


def remove_unfinished(directory: Any) -> None:
    """Removes what interrupted saves have left, unless a save is in progress."""
    # The directory is the manager's, so files of others go with what is removed, as in Orbax.
    _cairn.clean_json(os.fspath(directory), dry_run=False, foreign=True)


class StepRemoval:
    """Removes steps of a manager, at once or in the background."""

    def __init__(
        self,
        directory: Any,
        name_format: Any,
        subdirectory: "str | None",
        in_background: bool,
        is_in_place: bool,
    ) -> None:
        self._directory = directory
        self._format = name_format
        self._subdirectory = subdirectory
        self._in_background = in_background
        self._is_in_place = is_in_place
        self.background = Background("cairn-orbax-delete")

    def remove(self, steps: "list[int]") -> None:
        """Removes steps. In the background, self.background has the error."""
        if not steps:
            return
        paths = [self._format.find_step(self._directory, step).path for step in steps]

        def work() -> None:
            remove_steps(paths, self._subdirectory, self._is_in_place)

        if self._in_background:
            self.background.start(work)
        else:
            work()
