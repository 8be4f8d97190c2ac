"""The save of one checkpoint: written under another name, synced, renamed, by the native part."""

import json
import os
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.stored.atomicity import Atomicity, check_can_rename
from cairn.orbax._impl.stored.step_metadata import check_custom_metadata


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
        """mode: the permissions of the directory, less the umask, as mkdir has it.

        is_step: the directory is a manager's, which replaces it whole.
        """
        self._mode = mode
        self._is_step = is_step
        self.final = as_path(directory)
        self._in_place = (atomicity or Atomicity()).at(self.final).is_in_place
        check_can_rename(self.final, self._in_place)
        self.directory = self.final
        self._force = force
        self._custom_metadata = json.dumps(check_custom_metadata(custom_metadata))
        self._native: Any = None
        if self.final.exists() and not force:
            raise ValueError(f"Destination {self.final} already exists.")

    def create(self) -> None:
        """Makes the directory to write to. Removes what an earlier save has left there."""
        self._native, path = _cairn.CheckpointDirectory.create(
            os.fspath(self.final),
            replace=self._force,
            in_place=self._in_place,
            is_step=self._force and self._is_step,
            mode=self._mode,
            custom_metadata=self._custom_metadata,
        )
        self.directory = as_path(path)

    def abandon(self) -> None:
        """Removes what was written. Ends writes that an interrupted call has left running."""
        if self._native is not None:
            _cairn.TreeHandler.stop_writes(os.fspath(self.directory))
            self._native.close()

    def finish(self, item_handlers: Any) -> None:
        """Writes the metadata, waits for the disk, and completes the checkpoint."""
        self._native.commit(json.dumps(item_handlers))


class JoinedCommit:
    """The directory that process 0 has made for all."""

    def __init__(self, directory: str) -> None:
        self.directory = as_path(directory)

    def abandon(self) -> None:
        """Process 0 removes it."""
