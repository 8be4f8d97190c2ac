"""Handlers of items that are one file of text: JSON, and protocol buffers in text format."""

import dataclasses
import json
from typing import Any

from cairn.orbax._impl.base import options
from cairn.orbax._impl.base.futures import NoopFuture
from cairn.orbax._impl.base.processes import is_primary_host
from cairn.orbax._impl.handlers.args import CheckpointArgs, register_with_handler
from cairn.orbax._impl.handlers.handler import NativeHandler
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.paths.text_files import load_json, read_text
from cairn.orbax._impl.stored.step_metadata import write_file

_ORBAX = "orbax.checkpoint._src.handlers"


class _Failed(NoopFuture):
    """A future that has ended with an error."""

    def __init__(self, error: Exception) -> None:
        self._error = error

    def result(self, timeout: "float | None" = None) -> Any:
        """Raises the error."""
        raise self._error


class JsonCheckpointHandler(NativeHandler):
    """Saves and restores a value of JSON."""

    _typestr = f"{_ORBAX}.json_checkpoint_handler.JsonCheckpointHandler"

    def __init__(
        self,
        filename: "str | None" = None,
        *,
        multiprocessing_options: "options.MultiprocessingOptions | None" = None,
    ) -> None:
        del multiprocessing_options  # process 0 writes
        self._filename = filename or "metadata"

    async def async_save(self, directory: Any, item: Any = None, args: Any = None) -> "list[Any]":
        """Writes the value. The future raises TypeError if JSON has no such value."""
        if isinstance(item, CheckpointArgs):
            raise ValueError("give the arguments of a save as args=...")
        value = item if args is None else args.item
        try:
            text = json.dumps(value)
        except Exception as error:  # as in Orbax, where the background makes the text
            return [_Failed(error)]
        if is_primary_host(0):
            write_file(as_path(directory) / self._filename, text)
        return [NoopFuture()]

    def restore(self, directory: Any, item: Any = None, args: Any = None) -> Any:
        """The value. Raises FileNotFoundError if there is no file."""
        path = as_path(directory) / self._filename
        if not path.exists():
            raise FileNotFoundError(f"File {path} not found.")
        return load_json(path)


@register_with_handler(JsonCheckpointHandler, for_save=True)
@dataclasses.dataclass
class JsonSaveArgs(CheckpointArgs):
    """A value of JSON to be saved."""

    item: Any


@register_with_handler(JsonCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class JsonRestoreArgs(CheckpointArgs):
    """There is nothing to choose."""

    item: Any = None


class ProtoCheckpointHandler(NativeHandler):
    """Saves and restores a protocol buffer in text format. Needs the package protobuf."""

    _typestr = f"{_ORBAX}.proto_checkpoint_handler.ProtoCheckpointHandler"

    def __init__(
        self,
        filename: str = "proto.pbtxt",
        *,
        multiprocessing_options: "options.MultiprocessingOptions | None" = None,
    ) -> None:
        del multiprocessing_options  # process 0 writes
        self._filename = filename

    async def async_save(self, directory: Any, item: Any = None, args: Any = None) -> "list[Any]":
        """Writes the message."""
        from google.protobuf import text_format

        message = item if args is None else args.item
        text = text_format.MessageToString(message)
        if is_primary_host(0):
            write_file(as_path(directory) / self._filename, text)
        return [NoopFuture()]

    def restore(self, directory: Any, item: Any = None, args: Any = None) -> Any:
        """The message. Raises ValueError without its class, FileNotFoundError without a file."""
        kind = item if args is None else args.item
        if kind is None:
            raise ValueError("Must provide `item`: the class of the message")
        from google.protobuf import text_format

        path = as_path(directory) / self._filename
        if not path.exists():
            raise FileNotFoundError(f"File {path} not found.")
        return text_format.Parse(read_text(path), kind())


@register_with_handler(ProtoCheckpointHandler, for_save=True)
@dataclasses.dataclass
class ProtoSaveArgs(CheckpointArgs):
    """A message to be saved."""

    item: Any


@register_with_handler(ProtoCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class ProtoRestoreArgs(CheckpointArgs):
    """The class of the message."""

    item: Any
