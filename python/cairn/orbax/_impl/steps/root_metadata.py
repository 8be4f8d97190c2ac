"""The metadata of a directory of steps. It is written once."""

import json
import os
from typing import Any

from cairn.orbax._impl.step_metadata import (
    LEGACY_ROOT_METADATA_FILE,
    ROOT_METADATA_FILE,
    RootMetadata,
    read_json,
)
from cairn.orbax._impl.text_files import write_whole

_FOLDER = "metadata"


class RootMetadataFile:
    """Stores the metadata that a manager is given, unless there is some, and reads it again."""

    def __init__(self, directory: Any, options: Any, metadata: Any) -> None:
        self._folder = directory / _FOLDER
        self._found: RootMetadata | None = None
        if options.read_only:
            if not self._folder.exists():
                self._found = RootMetadata(custom_metadata=dict(metadata or {}))
            return
        file = self._folder / ROOT_METADATA_FILE
        if metadata is None or not options.save_root_metadata or file.exists():
            return
        os.makedirs(self._folder, exist_ok=True)
        stored = {"internal_metadata": {}, "custom_metadata": dict(metadata)}
        write_whole(file, json.dumps(stored).encode(), durable=True)

    def read(self) -> RootMetadata:
        """The metadata; empty if there is none."""
        if self._found is None:
            stored = read_json(self._folder / ROOT_METADATA_FILE)
            if stored is None:
                legacy = read_json(self._folder / LEGACY_ROOT_METADATA_FILE)
                stored = {"custom_metadata": legacy} if legacy is not None else {}
            self._found = RootMetadata(
                internal_metadata=stored.get("internal_metadata") or {},
                custom_metadata=stored.get("custom_metadata") or {},
            )
        return self._found
