"""Handlers of the msgpack file that checkpoints of old versions have for a whole tree."""

import abc
from typing import Any

from cairn.orbax._impl.base.futures import CommitFuture, Future
from cairn.orbax._impl.base.processes import is_primary_host
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.paths.text_files import open_regular, write_whole
from cairn.orbax._impl.trees.msgpack_bytes import msgpack_restore, msgpack_serialize
from cairn.orbax._impl.trees.plain import serialize_tree


class AggregateHandler(abc.ABC):
    """Reads and writes a tree as one file."""

    @abc.abstractmethod
    async def serialize(self, path: Any, item: Any) -> Future:
        """Starts to write a tree. The future ends when the file is there."""

    @abc.abstractmethod
    def deserialize(self, path: Any) -> Any:
        """Reads the tree of a file."""

    @abc.abstractmethod
    def close(self) -> None:
        """Frees what the handler has."""


class MsgpackHandler(AggregateHandler):
    """Trees as msgpack: dicts, lists, numbers, str, bytes, None and arrays.

    primary_host: the process that writes; None: each. Rich types (pytree_metadata_options) raise a
    NotImplementedError, as in Orbax: the file has tuples as lists. Needs the package msgpack.
    """

    def __init__(self, primary_host: "int | None" = 0, pytree_metadata_options: Any = None) -> None:
        self._primary_host = primary_host
        self._is_rich = bool(getattr(pytree_metadata_options, "support_rich_types", False))

    async def serialize(self, path: Any, item: Any) -> Future:
        """Starts to write a tree. The file appears complete or not at all.

        The result of the future is the number of bytes.
        """
        return CommitFuture(self._write(as_path(path), item))

    async def _write(self, path: Any, item: Any) -> "int | None":
        """The number of bytes; None in processes that do not write."""
        if not is_primary_host(self._primary_host):
            return None
        if self._is_rich:
            raise NotImplementedError(
                "msgpack files have no rich types: set support_rich_types=False"
            )
        packed = msgpack_serialize(serialize_tree(item, keep_empty_nodes=True))
        write_whole(path, packed)
        return len(packed)

    def deserialize(self, path: Any) -> Any:
        """The tree of a file. Raises FileNotFoundError, or ValueError for a damaged file."""
        path = as_path(path)
        if not path.exists():
            raise FileNotFoundError(f"Checkpoint does not exist at {path}.")
        with open_regular(path) as file:
            return msgpack_restore(file.read())

    def close(self) -> None:
        """Nothing is to be freed."""
