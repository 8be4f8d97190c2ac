"""The values of object stores, by URL, and files of them that are open."""

import io
import os
from typing import Any

from cairn import _cairn

SCHEMES = ("gs", "s3", "memory", "hf", "http", "https")
_MOST = 1 << 62  # all values

# One store of each bucket stays open, so that its connections and its credentials are used again.
_open: "dict[tuple[int, str], Any]" = {}


class Place:
    """A key of a store. The key of a whole bucket is empty."""

    def __init__(self, url: str) -> None:
        """url: as `scheme://bucket/key`."""
        scheme, _, rest = url.partition("://")
        bucket, _, self.key = rest.partition("/")
        if scheme not in SCHEMES or not bucket:
            raise ValueError(f"{url}: expected the URL of a store, {SCHEMES[0]}://bucket/name")
        self.url = url
        self.bucket = f"{scheme}://{bucket}"
        self.store = _cairn.Store(self.bucket)
        _open[os.getpid(), self.bucket] = self.store

    @property
    def folder(self) -> str:
        """What the keys below this one begin with."""
        return self.key + "/" if self.key else ""

    def find(self) -> "tuple[bool, int, int] | None":
        """What is here: whether it is a folder, its size in bytes, the time in nanoseconds.

        None: nothing. A bucket is always a folder.
        """
        if not self.key:
            return True, 0, 0
        # Mostly the first two keys show it. Others may come between: "a", "a-b", "a/b".
        values, is_whole = self.store.list_values(self.key, 2)
        for key, size, time in values:
            if key == self.key:
                return False, size, time
        is_folder = any(key.startswith(self.folder) for key, _, _ in values)
        if not is_folder and not is_whole:
            is_folder = bool(self.store.list_values(self.folder, 1)[0])
        return (True, 0, 0) if is_folder else None

    def has_values_below(self) -> bool:
        """Whether this is a folder."""
        return not self.key or bool(self.store.list_values(self.folder, 1)[0])

    def level(self) -> "tuple[list[str], list[str]]":
        """The names of the files and of the folders in this one."""
        values, folders = self.store.list_level(self.folder)
        start = len(self.folder)
        return [key[start:] for key, _, _ in values], [key[start:-1] for key in folders]

    def keys_below(self) -> "list[str]":
        """All keys below this one."""
        return [key for key, _, _ in self.store.list_values(self.folder, _MOST)[0]]

    def read(self) -> bytes:
        """The whole value."""
        value = self.store.read(self.key) if self.key else None
        if value is None:
            raise FileNotFoundError(f"{self.url}: there is no such object")
        return value

    def write(self, content: bytes) -> None:
        """Replaces the value in one step."""
        self.check_is_named()
        self.store.write(self.key, content)

    def create(self, content: bytes) -> bool:
        """Writes the value unless there is one; returns whether it did."""
        self.check_is_named()
        return self.store.create(self.key, content)

    def check_is_named(self) -> None:
        """Raises IsADirectoryError for a bucket."""
        if not self.key:
            raise IsADirectoryError(f"{self.url}: is a bucket, not an object")

    def remove(self, keys: "list[str]") -> None:
        """Removes the values of keys of this bucket."""
        self.store.remove_all(keys)

    def copy_value(self, key: str, target: "Place", target_key: str) -> None:
        """Copies one value, inside the store if it can."""
        if self.bucket == target.bucket and self.store.copy(key, target_key):
            return
        content = self.store.read(key)
        if content is None:
            raise FileNotFoundError(f"{self.bucket}/{key}: there is no such object")
        target.store.write(target_key, content)


class _Writer(io.RawIOBase):
    """A value that is written from front to back. It appears when the file is closed."""

    def __init__(self, place: Place, first: bytes) -> None:
        place.check_is_named()
        self._appender = place.store.append(place.key)
        if first:
            self._appender.append(first)

    def writable(self) -> bool:
        return True

    def write(self, part: Any) -> int:
        content = bytes(part)
        self._appender.append(content)
        return len(content)

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        self._appender.commit()


def open_file(place: Place, mode: str, encoding: "str | None" = None) -> Any:
    """Opens a value as a file, in one of the modes r, w, x and a, with b or without."""
    kind = mode.replace("b", "", 1).replace("t", "", 1)
    if kind not in ("r", "w", "x", "a"):
        raise ValueError(f"mode {mode!r}: expected r, w, x or a, with b or t")
    file: Any
    if kind == "r":
        file = io.BytesIO(place.read())
    else:
        if kind == "x" and not place.create(b""):
            raise FileExistsError(f"{place.url}: exists")
        found = place.find() if kind == "a" else None
        first = place.read() if found and not found[0] else b""
        file = io.BufferedWriter(_Writer(place, first), 1 << 20)
    return file if "b" in mode else io.TextIOWrapper(file, encoding=encoding or "utf-8")
