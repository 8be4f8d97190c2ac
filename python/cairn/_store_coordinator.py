"""A coordinator over a key-value store that all processes share (cairn._processes)."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import struct
import threading
import time

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from typing import Any

_PIECE = 1 << 20  # bytes of one value of a store; that of PyTorch takes 8 MiB
_LONGEST_REASON = 1 << 15  # characters
_ANSWER = 30.0  # seconds in which the store returns a value that it has


class StoreCoordinator:
    """A coordinator over a key-value store that all processes share.

    Every process leaves a message NAME/INDEX. Process 0 collects them, and writes the result under
    NAME/r. A process that gives up writes its reason there instead. The first to write decides, so
    that all processes agree.
    """

    def __init__(self, store: Any, process_index: int, process_count: int) -> None:
        self.process_index = process_index
        self.process_count = process_count
        self._store = store
        self._lock = threading.Lock()
        self._visits = itertools.count()
        self._open: set[int] = set()  # numbers of visits that go on
        self._cancelled: set[str] = set()
        # Process 0: results that others may still read, with their numbers of that visit.
        self._left: list[tuple[str, int, list[int]]] = []

    def all_gather(self, name: str, value: bytes, timeout: float, parent: str = "") -> list[bytes]:
        """Also fails when the all_gather `parent` does, in which this process is not yet."""
        with self._lock:
            number = next(self._visits)
            self._open.add(number)
            lowest = min(self._open)
        try:
            message = struct.pack("<QQ", number, lowest) + value
            self._put(f"{name}/{self.process_index}", message)
            visit = _Visit(name, parent, timeout, time.monotonic() + timeout)
            if self.process_index == 0:
                return self._collect(visit, message)
            return _values(self._wait(visit, f"{name}/r"))
        except _Failed as error:
            raise OSError(str(error)) from None
        except BaseException as error:
            with contextlib.suppress(OSError):  # else the others wait until their time is over
                self.abort(name, f"{type(error).__name__}: {error}")
            raise
        finally:
            with self._lock:
                self._open.discard(number)
                self._cancelled.discard(name)

    def abort(self, name: str, why: str) -> None:
        self.decide(name, f"process {self.process_index} aborted: {why}")

    def decide(self, name: str, reason: str) -> None:
        """Makes the all_gather fail for this reason, unless it has ended."""
        self._put(f"{name}/r", b"F" + reason[:_LONGEST_REASON].encode(errors="replace"))

    def cancel(self, name: str) -> None:
        with self._lock:
            self._cancelled.add(name)

    def _collect(self, visit: _Visit, mine: bytes) -> list[bytes]:
        name = visit.name
        messages = [mine]
        for process in range(1, self.process_count):
            messages.append(self._wait(visit, f"{name}/{process}"))
        values = [message[16:] for message in messages]
        result = b"D" + b"".join(struct.pack("<Q", len(value)) + value for value in values)
        if not self._put(f"{name}/r", result):
            _values(self._decided(name))
        for process, message in enumerate(messages):
            self._remove(f"{name}/{process}", len(message))
        self._forget(name, len(result), messages)
        return values

    def _forget(self, name: str, size: int, messages: list[bytes]) -> None:
        """Removes the results that all processes have read: those before their oldest visit."""
        headers = [struct.unpack_from("<QQ", message) for message in messages]
        with self._lock:
            left, self._left = self._left, []
            read = [
                all(lowest > number for (_, lowest), number in zip(headers, numbers, strict=True))
                for _, _, numbers in left
            ]
            self._left = [entry for entry, is_read in zip(left, read, strict=True) if not is_read]
            self._left.append((name, size, [number for number, _ in headers]))
        for (key, length, _), is_read in zip(left, read, strict=True):
            if is_read:
                self._remove(f"{key}/r", length)

    def _wait(self, visit: _Visit, key: str) -> bytes:
        """The value of a key. Raises _Failed if the all_gather has failed, or fails now."""
        name = visit.name
        pause = 0.05
        while True:
            left = visit.deadline - time.monotonic()
            found = self._take(key, max(0.0, min(pause, left)))
            if found is not None:
                return found
            if self.process_index == 0:
                decided = self._take(f"{name}/r", 0)
                if decided is not None:
                    _values(decided)
            above = self._take(f"{visit.parent}/r", 0) if visit.parent else None
            if above is not None and above[:1] == b"F":
                return self._fail(name, above[1:].decode(errors="replace"))
            if name in self._cancelled:
                return self._fail(name, f"process {self.process_index} was asked to stop")
            if left <= 0:
                return self._fail(name, self._missing(name, visit.timeout))
            pause = min(2 * pause, 0.5)

    def _fail(self, name: str, why: str) -> bytes:
        """Makes the all_gather fail, unless it has ended; what the result says then."""
        self._put(f"{name}/r", b"F" + why.encode())
        decided = self._decided(name)
        if self.process_index == 0:
            _values(decided)
        return decided

    def _decided(self, name: str) -> bytes:
        """The result that some process has written."""
        decided = self._take(f"{name}/r", _ANSWER)
        if decided is None:
            raise OSError(f"{name}: the store of the job does not return the result that it has")
        return decided

    def _missing(self, name: str, timeout: float) -> str:
        missing = [
            process
            for process in range(self.process_count)
            if process != self.process_index and self._store.get(f"{name}/{process}", 0) is None
        ]
        if not missing:
            return f"process 0 did not answer process {self.process_index} in {timeout:g} s"
        word = "process" if len(missing) == 1 else "processes"
        return (
            f"{word} {', '.join(map(str, missing))} did not arrive before process "
            f"{self.process_index} timed out after {timeout:g} s"
        )

    # ---- values of any length ----

    def _put(self, key: str, value: bytes) -> bool:
        """Writes a value, unless the key has one. Its pieces come first."""
        if len(value) <= _PIECE:
            return bool(self._store.create(key, b"\0" + value))
        pieces = range(0, len(value), _PIECE)
        for i, at in enumerate(pieces):
            self._store.create(f"{key}.{i}", value[at : at + _PIECE])
        return bool(self._store.create(key, b"\1" + struct.pack("<Q", len(pieces))))

    def _take(self, key: str, seconds: float) -> bytes | None:
        value = self._store.get(key, seconds)
        if value is None or value[:1] == b"\0":
            return None if value is None else bytes(value[1:])
        (count,) = struct.unpack("<Q", value[1:])
        pieces = [self._store.get(f"{key}.{i}", _ANSWER) for i in range(count)]
        if None in pieces:
            raise OSError(f"{key}: a part of the value is missing in the store of the job")
        return b"".join(pieces)

    def _remove(self, key: str, length: int) -> None:
        self._store.delete(key)
        if length > _PIECE:
            for i in range((length + _PIECE - 1) // _PIECE):
                self._store.delete(f"{key}.{i}")


@dataclasses.dataclass
class _Visit:
    """A call of all_gather."""

    name: str
    parent: str
    timeout: float
    deadline: float


class _Failed(Exception):
    """The reason for which an all_gather failed, in all processes."""


def _values(result: bytes) -> list[bytes]:
    if result[:1] != b"D":
        raise _Failed(result[1:].decode(errors="replace"))
    values, at = [], 1
    while at < len(result):
        (size,) = struct.unpack_from("<Q", result, at)
        values.append(result[at + 8 : at + 8 + size])
        at += 8 + size
    return values
