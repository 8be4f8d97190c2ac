"""An opened tree: its leaves by path, and its metadata."""

import os
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.paths import TREE_METADATA_FILE, as_path
from cairn.orbax._impl.step_metadata import read_json

Path = tuple[str, ...]

AGGREGATE_FILE = "checkpoint"  # the msgpack file of checkpoints of old versions


class StoredTree:
    """The files of one tree. Nothing but metadata is read before read()."""

    def __init__(self, directory: Any) -> None:
        self.directory = as_path(directory)
        if not self.directory.exists():
            raise FileNotFoundError(
                f"Requested directory for restore does not exist at {self.directory}."
            )
        has_tree = (self.directory / TREE_METADATA_FILE).exists()
        if not has_tree and not (self.directory / AGGREGATE_FILE).exists():
            raise FileNotFoundError(
                f"No structure could be identified for the checkpoint at {self.directory}: it has "
                f"no {TREE_METADATA_FILE}"
            )
        path = os.fspath(self.directory)
        self.reader: Any = _cairn.open(path, None, None, True, 0, None)
        self.infos = [self.reader.tensor(i) for i in range(len(self.reader))]
        self.by_path: dict[Path, int] = {
            tuple(str(key) for key in info.path): i for i, info in enumerate(self.infos)
        }

    def structure(self) -> Any:
        """Nested containers with the number of the leaf in place of each."""
        return self.reader.structure()

    def is_empty(self, index: int) -> bool:
        """Whether a leaf is None or an empty container."""
        return str(self.infos[index].kind) == "empty"

    def tree_metadata(self) -> "dict[str, Any]":
        """What the file of the structure says."""
        return read_json(self.directory / TREE_METADATA_FILE) or {}


def fill(structure: Any, values: "dict[int, Any]") -> Any:
    """The structure with the values of its leaves."""
    if isinstance(structure, int):
        return values[structure]
    if isinstance(structure, dict):
        return {key: fill(child, values) for key, child in structure.items()}
    children = [fill(child, values) for child in structure]
    if hasattr(structure, "_fields"):
        return type(structure)(*children)
    return children if isinstance(structure, list) else tuple(children)
