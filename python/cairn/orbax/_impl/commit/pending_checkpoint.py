"""The save of one checkpoint: written under another name, synced, renamed, by the native part."""

import os
import time
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.paths.permissions import restrict
from cairn.orbax._impl.stored.atomicity import Atomicity, commit
from cairn.orbax._impl.stored.step_metadata import (
    check_custom_metadata,
    has_own_files,
    write_step_metadata,
)


class Commit:
    """Makes a directory appear complete or not at all.

    With `force`, an older checkpoint of the name is replaced when the new one is complete. Unlike
    in Orbax, files that lie beside those of the older one are kept, and a directory that holds
    anything else besides a checkpoint is not replaced, unless handlers of the user's have written
    it. Only one save to a path is possible at a time.
    """

    def __init__(
        self,
        directory: Any,
        force: bool,
        custom_metadata: Any,
        atomicity: "Atomicity | None" = None,
        mode: "int | None" = None,
        is_step: bool = False,
    ) -> None:
        """mode: the permissions of the directory, see permissions.restrict().

        is_step: the directory is a manager's, which replaces it whole.
        """
        self._mode = mode
        self._is_step = is_step
        self._in_place = atomicity is not None and atomicity.is_in_place
        self.final = as_path(directory)
        self.directory = self.final
        self._force = force
        self._custom_metadata = check_custom_metadata(custom_metadata)
        self._begin = time.time_ns()
        self._native: Any = None
        if self.final.exists() and not force:
            raise ValueError(f"Destination {self.final} already exists.")

    def create(self) -> None:
        """Makes the directory to write to. Removes what an earlier save has left there."""
        self._native = _cairn.CheckpointDirectory(
            os.fspath(self.final),
            self._force,
            self._in_place,
            self._force and (self._is_step or has_own_files(self.final)),
        )
        self.directory = as_path(self._native.path())
        restrict(self.directory, self._mode)
        self._write_metadata(None, None)

    def abandon(self) -> None:
        """Removes what was written. Ends writes that an interrupted call has left running."""
        if self._native is not None:
            _cairn.TreeHandler.stop_writes(os.fspath(self.directory))
            self._native.close()

    def finish(self, item_handlers: Any) -> None:
        """Writes the metadata, waits for the disk, and completes the checkpoint."""
        commit(
            self._native,
            self.final,
            self._in_place,
            lambda: self._write_metadata(item_handlers, time.time_ns()),
        )

    def _write_metadata(self, item_handlers: Any, end: "int | None") -> None:
        write_step_metadata(self.directory, self._begin, end, item_handlers, self._custom_metadata)


class JoinedCommit:
    """The directory that process 0 has made for all."""

    def __init__(self, directory: str) -> None:
        self.directory = as_path(directory)

    def abandon(self) -> None:
        """Process 0 removes it."""
