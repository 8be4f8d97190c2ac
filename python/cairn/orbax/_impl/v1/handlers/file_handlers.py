"""Handlers of checkpointables that are one file: JSON, metrics, protocol buffers."""

import inspect
import json
import sys
from collections.abc import Awaitable
from typing import Any, ClassVar

from cairn.orbax._impl.paths.text_files import load_json, read_text
from cairn.orbax._impl.stored.step_metadata import write_file
from cairn.orbax._impl.v1.handlers.handler_types import CheckpointableHandler, PathAwaitingCreation

_ORBAX = "orbax.checkpoint.experimental.v1._src.handlers"
_DATA_FILE = "data.json"


class JsonHandler(CheckpointableHandler[Any, None]):
    """Saves and loads a value of JSON. Also loads what JsonCheckpointHandler has saved."""

    _typestr: ClassVar[str] = f"{_ORBAX}.json_handler.JsonHandler"

    def __init__(self, filename: "str | None" = None) -> None:
        self._filename = filename or _DATA_FILE

    async def save(self, directory: PathAwaitingCreation, checkpointable: Any) -> "Awaitable[None]":
        """Saves a value."""
        return self._write(directory, checkpointable)

    async def _write(self, directory: PathAwaitingCreation, value: Any) -> None:
        write_file(await directory.await_creation() / self._filename, json.dumps(value))

    async def load(self, directory: Any, abstract_checkpointable: Any = None) -> "Awaitable[Any]":
        """Loads the value."""
        return self._read(directory)

    async def _read(self, directory: Any) -> Any:
        names = [self._filename, _DATA_FILE, "metadata"]
        for name in names:
            if (directory / name).exists():
                return load_json(directory / name)
        raise FileNotFoundError(f"{directory}: there is no file of JSON; looked for {names}")

    async def metadata(self, directory: Any) -> None:
        """None: nothing is known without reading the file."""

    def is_handleable(self, checkpointable: Any) -> bool:
        """Whether JSON has such a value."""
        try:
            json.dumps(checkpointable)
        except (TypeError, ValueError, RecursionError):
            return False
        return True

    def is_abstract_handleable(self, abstract_checkpointable: Any) -> "bool | None":
        """None: it depends on who has saved it."""
        return None


class MetricsHandler(JsonHandler):
    """Saves and loads the metrics of a step."""

    _typestr: ClassVar[str] = f"{_ORBAX}.json_handler.MetricsHandler"

    def __init__(self) -> None:
        super().__init__("metrics")


class ProtoHandler(CheckpointableHandler[Any, Any]):
    """Saves and loads a protocol buffer in text format. Needs the package protobuf."""

    _typestr: ClassVar[str] = f"{_ORBAX}.proto_handler.ProtoHandler"

    def __init__(self, filename: str = "proto.pbtxt") -> None:
        self._filename = filename

    async def save(self, directory: PathAwaitingCreation, checkpointable: Any) -> "Awaitable[None]":
        """Saves a message."""
        return self._write(directory, checkpointable)

    async def _write(self, directory: PathAwaitingCreation, message: Any) -> None:
        from google.protobuf import text_format

        path = await directory.await_creation() / self._filename
        write_file(path, text_format.MessageToString(message))

    async def load(self, directory: Any, abstract_checkpointable: Any = None) -> "Awaitable[Any]":
        """Loads a message of the class that is the target. Raises ValueError without one."""
        if abstract_checkpointable is None:
            raise ValueError(f"{directory}: give the class of the message as the target")
        return self._read(directory, abstract_checkpointable)

    async def _read(self, directory: Any, kind: Any) -> Any:
        from google.protobuf import text_format

        return text_format.Parse(read_text(directory / self._filename), kind())

    async def metadata(self, directory: Any) -> Any:
        """Raises NotImplementedError: the class of the message is not stored."""
        raise NotImplementedError(f"{directory}: the class of a message is not stored")

    def is_handleable(self, checkpointable: Any) -> bool:
        """Whether an object is a message."""
        return _is_message_class(type(checkpointable))

    def is_abstract_handleable(self, abstract_checkpointable: Any) -> bool:
        """Whether a target is a class of messages."""
        return inspect.isclass(abstract_checkpointable) and _is_message_class(
            abstract_checkpointable
        )


def _is_message_class(cls: "type[Any]") -> bool:
    """Whether a class is one of messages. A program without protobuf has none."""
    known = sys.modules.get("google.protobuf.message")
    return known is not None and issubclass(cls, known.Message)
