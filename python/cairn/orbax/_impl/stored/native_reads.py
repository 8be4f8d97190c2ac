"""The native reader of cairn.orbax. Its errors are those that programs for Orbax catch."""

import contextlib
import functools
import os
from collections.abc import Iterator
from typing import Any

from cairn import _cairn
from cairn._cairn import CorruptionError


class DamagedDataError(CorruptionError, ValueError):
    """Stored bytes are damaged. Orbax raises ValueError for that."""


class MissingArrayError(FileNotFoundError, ValueError):
    """A stored tree names an array that is not there.

    Orbax raises FileNotFoundError for a missing directory and ValueError for what a database lacks.
    """


class NativeReader:
    """A native reader that raises these two errors in place of those of the native part."""

    def __init__(
        self, path: Any, memory: "int | None" = None, aggregate_filename: str = "checkpoint"
    ) -> None:
        """Opens a tree, a file, or a directory of arrays.

        memory: bytes that are read at a time. aggregate_filename: of the msgpack file of a tree.
        """
        with _damage_as_value_error():
            # As in Orbax, the trees that are there can be read.
            self._native: Any = _cairn.open(
                os.fspath(path),
                None,
                None,
                True,
                0,
                memory,
                aggregate_filename=aggregate_filename,
                allow_missing=True,
            )

    def tensors(self) -> "list[Any]":
        """Returns the metadata of each leaf. Reads no values."""
        with _damage_as_value_error():
            return [self._native.tensor(index) for index in range(len(self._native))]

    def __getattr__(self, name: str) -> Any:
        function = getattr(self._native, name)

        @functools.wraps(function)
        def called(*args: Any) -> Any:
            try:
                with _damage_as_value_error():
                    return function(*args)
            except FileNotFoundError as error:
                raise MissingArrayError(str(error)) from None

        setattr(self, name, called)  # made once
        return called


@contextlib.contextmanager
def _damage_as_value_error() -> "Iterator[None]":
    try:
        yield
    except CorruptionError as error:
        raise DamagedDataError(str(error)) from None
