"""Makes a directory appear complete or not at all: written under another name, synced, renamed."""

import json
import os
import shutil
import time
from typing import Any

from cairn.orbax._impl.paths import COMMIT_FILE, STEP_METADATA_FILE, TEMPORARY_MARK, as_path
from cairn.orbax._impl.step_metadata import check_custom_metadata, write_file


class Commit:
    """The save of one checkpoint.

    With `force`, an older checkpoint of the name is removed when the new one is complete.
    """

    def __init__(self, directory: Any, force: bool, custom_metadata: Any) -> None:
        self.final = as_path(directory)
        self.directory = as_path(os.fspath(self.final) + TEMPORARY_MARK)
        self._force = force
        self._custom_metadata = check_custom_metadata(custom_metadata)
        self._begin = time.time_ns()
        if self.final.exists() and not force:
            raise ValueError(f"Destination {self.final} already exists.")

    def create(self) -> None:
        """Makes the directory to write to. What a save before has left there is removed."""
        if self.directory.exists():
            shutil.rmtree(self.directory)
        os.makedirs(self.directory)
        self._write_metadata(None, None)

    def abandon(self) -> None:
        """Removes what was written."""
        shutil.rmtree(self.directory, ignore_errors=True)

    def finish(self, item_handlers: Any) -> None:
        """Writes the metadata, waits for the disk, and gives the checkpoint its name."""
        self._write_metadata(item_handlers, time.time_ns())
        write_file(
            self.directory / COMMIT_FILE, f"Checkpoint commit was successful to {self.final}"
        )
        _sync_below(self.directory)
        old = None
        if self._force and self.final.exists():
            old = as_path(f"{os.fspath(self.final)}.old{TEMPORARY_MARK}")
            shutil.rmtree(old, ignore_errors=True)
            os.rename(self.final, old)
        os.rename(self.directory, self.final)
        _sync_directory(os.path.dirname(os.fspath(self.final)))
        if old is not None:
            shutil.rmtree(old)

    def _write_metadata(self, item_handlers: Any, end: "int | None") -> None:
        metadata = {
            "item_handlers": item_handlers,
            "metrics": {},
            "performance_metrics": {},
            "init_timestamp_nsecs": self._begin,
            "commit_timestamp_nsecs": end,
            "custom_metadata": self._custom_metadata,
        }
        write_file(self.directory / STEP_METADATA_FILE, json.dumps(metadata))


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync_below(root: Any) -> None:
    """Syncs all files and directories. Those of the native part are on the disk already."""
    for directory, _, files in os.walk(root):
        for name in files:
            path = os.path.join(directory, name)
            if not os.path.islink(path):
                _sync_directory(path)
        _sync_directory(directory)
