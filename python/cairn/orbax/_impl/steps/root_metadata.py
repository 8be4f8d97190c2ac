"""The metadata of a directory of steps. It is written once."""

import json
from typing import Any

from cairn.orbax._impl.paths.permissions import make
from cairn.orbax._impl.paths.text_files import write_whole
from cairn.orbax._impl.stored.step_metadata import (
    LEGACY_ROOT_METADATA_FILE,
    ROOT_METADATA_FILE,
    RootMetadata,
    deserialize_root_metadata,
    read_json,
)

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
        make(self._folder, None)
        stored = {"internal_metadata": {}, "custom_metadata": dict(metadata)}
        write_whole(file, json.dumps(stored).encode(), durable=True)

    def read(self) -> RootMetadata:
        """The metadata, empty if there is none. Raises OSError if its file is lost or damaged."""
        if self._found is None:
            self._found = self._read_file() if self._folder.exists() else RootMetadata()
        return self._found

    def _read_file(self) -> RootMetadata:
        file = self._folder / ROOT_METADATA_FILE
        if not file.exists():
            file = self._folder / LEGACY_ROOT_METADATA_FILE
        stored = read_json(file)
        if stored is None:
            raise OSError(f"{file} is missing or is not an object of JSON")
        return deserialize_root_metadata(stored)
