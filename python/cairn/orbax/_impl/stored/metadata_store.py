"""Stores of metadata: files of one JSON object each."""

import concurrent.futures
import functools
import json
import threading
from typing import Any, Protocol

from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.paths.text_files import write_whole
from cairn.orbax._impl.stored.step_metadata import read_json

# One for the process: what a thread reads, no other thread changes until it has been written.
_lock = threading.RLock()


class MetadataStore(Protocol):
    """Reads and writes the files of steps and runs. Reads do not wait for writes that go on."""

    def is_blocking_writer(self) -> bool:
        """Whether write() and update() return when the file is there."""

    def write(self, file_path: Any, metadata: "dict[str, Any]") -> None:
        """Replaces a file. Without the right to write, does nothing."""

    def read(self, file_path: Any) -> "dict[str, Any] | None":
        """The object of a file; None if there is no such file, or it is damaged."""

    def update(self, file_path: Any, **kwargs: Any) -> None:
        """Changes members of the object of a file, which is made if it is missing."""

    def wait_until_finished(self) -> None:
        """Waits for writes, and raises the error of the first that has failed."""

    def close(self) -> None:
        """Waits for writes and ends their thread."""


def _write(file_path: Any, metadata: "dict[str, Any]") -> None:
    """The file appears complete or not at all."""
    content = json.dumps(metadata).encode()
    with _lock:
        write_whole(as_path(file_path), content)


def _update(file_path: Any, changes: "dict[str, Any]") -> None:
    with _lock:
        _write(file_path, {**(read_json(file_path) or {}), **changes})


class _BlockingStore(MetadataStore):
    def __init__(self, can_write: bool) -> None:
        self._can_write = can_write

    def is_blocking_writer(self) -> bool:
        return True

    def write(self, file_path: Any, metadata: "dict[str, Any]") -> None:
        if self._can_write:
            _write(file_path, metadata)

    def read(self, file_path: Any) -> "dict[str, Any] | None":
        return read_json(file_path)

    def update(self, file_path: Any, **kwargs: Any) -> None:
        if self._can_write:
            _update(file_path, kwargs)

    def wait_until_finished(self) -> None:
        pass

    def close(self) -> None:
        pass


class _BackgroundStore(MetadataStore):
    """Writes in one thread, in the order of the calls."""

    def __init__(self, can_write: bool) -> None:
        self._can_write = can_write
        self._lock = threading.Lock()
        self._futures: list[concurrent.futures.Future[None]] = []
        self._executor: concurrent.futures.ThreadPoolExecutor | None = None
        if can_write:
            self._executor = concurrent.futures.ThreadPoolExecutor(1, "cairn-orbax-metadata")

    def is_blocking_writer(self) -> bool:
        return False

    def _submit(self, work: Any, *args: Any) -> None:
        if self._executor is not None:
            with self._lock:
                self._futures.append(self._executor.submit(work, *args))

    def write(self, file_path: Any, metadata: "dict[str, Any]") -> None:
        self._submit(_write, file_path, metadata)

    def read(self, file_path: Any) -> "dict[str, Any] | None":
        return read_json(file_path)

    def update(self, file_path: Any, **kwargs: Any) -> None:
        self._submit(_update, file_path, kwargs)

    def wait_until_finished(self) -> None:
        while True:
            with self._lock:
                if not self._futures:
                    return
                future = self._futures.pop(0)
            future.result()

    def close(self) -> None:
        if self._executor is not None:
            self._executor.shutdown()


@functools.cache
def _shared(can_write: bool, is_blocking: bool) -> MetadataStore:
    return _BlockingStore(can_write) if is_blocking else _BackgroundStore(can_write)


def metadata_store(*, enable_write: bool, blocking_write: bool = False) -> MetadataStore:
    """A store of metadata.

    enable_write: False: writes do nothing. blocking_write: False: writes go on in the background;
    a store that also writes must then be closed.
    """
    if enable_write and not blocking_write:
        return _BackgroundStore(True)
    return _shared(enable_write, blocking_write)
