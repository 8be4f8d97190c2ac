"""The values of object stores, by URL, and files of them that are open."""

import bisect
import contextlib
import contextvars
import io
import os
from collections.abc import Iterator
from typing import Any

from cairn import _cairn

SCHEMES = ("gs", "s3", "memory", "hf")  # whose values can be listed
_MOST = 1 << 62  # all values
_PAGE = 1000  # the values of a listing that takes one request

# One store of each bucket stays open, so that its connections and its credentials are used again.
_open: "dict[tuple[int, str], Any]" = {}


class _Listing:
    """All keys below a folder of a bucket, as they were listed."""

    def __init__(self, bucket: str, folder: str, values: "list[tuple[str, int, int]]") -> None:
        self.bucket = bucket
        self.folder = folder
        self.is_current = True
        self._values = {key: (size, time) for key, size, time in values}
        self._keys = sorted(self._values)

    def has(self, bucket: str, key: str) -> bool:
        """Whether the listing tells of a key, and of all keys below it."""
        is_below = key.startswith(self.folder) or key + "/" == self.folder
        return self.is_current and bucket == self.bucket and is_below

    def list_values(self, prefix: str, most: int) -> "tuple[list[tuple[str, int, int]], bool]":
        """As that of a store."""
        start = bisect.bisect_left(self._keys, prefix)
        found: list[tuple[str, int, int]] = []
        for key in self._keys[start:]:
            if not key.startswith(prefix) or len(found) > most:
                break
            found.append((key, *self._values[key]))
        return found[:most], len(found) <= most

    def list_level(self, prefix: str) -> "tuple[list[tuple[str, int, int]], list[str]]":
        """As that of a store."""
        values, folders = [], set()
        for one in self.list_values(prefix, _MOST)[0]:
            name, slash, _ = one[0][len(prefix) :].partition("/")
            if slash:
                folders.add(prefix + name + slash)
            else:
                values.append(one)
        return values, sorted(folders)

    def read(self, key: str, store: Any) -> "bytes | None":
        """The value in the store, which is not asked for a key that it does not have."""
        value: bytes | None = store.read(key) if key in self._values else None
        return value


_listings: "contextvars.ContextVar[tuple[_Listing, ...]]" = contextvars.ContextVar(
    "listings", default=()
)


@contextlib.contextmanager
def listed_once(path: Any) -> "Iterator[None]":
    """Lists a folder of a store with one request, which then answers what is there.

    That ends with the block, or when this process changes something in the bucket. Large folders
    are not listed. Does nothing for local paths.
    """
    text = os.fspath(path)
    scheme, mark, _ = text.partition("://")
    if not mark or scheme not in SCHEMES:
        yield
        return
    place = Place(text)
    listing = None
    if place.key and place.listing is None:
        values, is_whole = place.store.list_values(place.folder, _PAGE)
        listing = _Listing(place.bucket, place.folder, values) if is_whole and values else None
    if listing is None:
        yield
        return
    before = _listings.set((*_listings.get(), listing))
    try:
        yield
    finally:
        _listings.reset(before)


class Place:
    """A key of a store. The key of a whole bucket is empty."""

    def __init__(self, url: str) -> None:
        """url: as `scheme://bucket/key`."""
        scheme, _, rest = url.partition("://")
        # A repository of the hub: owner/name, datasets/owner/name.
        count = 1 if scheme != "hf" else 3 if rest.startswith(("datasets/", "spaces/")) else 2
        parts = rest.split("/", count)
        bucket = "/".join(parts[:count])
        self.key = parts[count] if len(parts) > count else ""
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

    @property
    def listing(self) -> "_Listing | None":
        """What listed_once() knows of this place."""
        for listing in _listings.get():
            if listing.has(self.bucket, self.key):
                return listing
        return None

    def _changes(self) -> None:
        for listing in _listings.get():
            if listing.bucket == self.bucket:
                listing.is_current = False

    def find(self) -> "tuple[bool, int, int] | None":
        """What is here: whether it is a folder, its size in bytes, the time in nanoseconds.

        None: nothing. A bucket is always a folder.
        """
        if not self.key:
            return True, 0, 0
        known = self.listing or self.store
        # Mostly the first two keys show it. Others may come between: "a", "a-b", "a/b".
        values, is_whole = known.list_values(self.key, 2)
        for key, size, time in values:
            if key == self.key:
                return False, size, time
        is_folder = any(key.startswith(self.folder) for key, _, _ in values)
        if not is_folder and not is_whole:
            is_folder = bool(known.list_values(self.folder, 1)[0])
        return (True, 0, 0) if is_folder else None

    def has_values_below(self) -> bool:
        """Whether this is a folder."""
        known = self.listing or self.store
        return not self.key or bool(known.list_values(self.folder, 1)[0])

    def level(self) -> "tuple[list[str], list[str]]":
        """The names of the files and of the folders in this one."""
        values, folders = (self.listing or self.store).list_level(self.folder)
        start = len(self.folder)
        return [key[start:] for key, _, _ in values], [key[start:-1] for key in folders]

    def keys_below(self) -> "list[str]":
        """All keys below this one."""
        return [key for key, _, _ in self.store.list_values(self.folder, _MOST)[0]]

    def read(self) -> bytes:
        """The whole value."""
        value: bytes | None = None
        if self.key:
            listing = self.listing
            value = listing.read(self.key, self.store) if listing else self.store.read(self.key)
        if value is None:
            raise FileNotFoundError(f"{self.url}: there is no such object")
        return value

    def write(self, content: bytes) -> None:
        """Replaces the value in one step."""
        self.check_is_named()
        self._changes()
        self.store.write(self.key, content)

    def create(self, content: bytes) -> bool:
        """Writes the value unless there is one; returns whether it did."""
        self.check_is_named()
        self._changes()
        return self.store.create(self.key, content)

    def append(self) -> Any:
        """Starts a value that is written from front to back."""
        self.check_is_named()
        self._changes()
        return self.store.append(self.key)

    def check_is_named(self) -> None:
        """Raises IsADirectoryError for a bucket."""
        if not self.key:
            raise IsADirectoryError(f"{self.url}: is a bucket, not an object")

    def remove(self, keys: "list[str]") -> None:
        """Removes the values of keys of this bucket."""
        self._changes()
        self.store.remove_all(keys)

    def copy_value(self, key: str, target: "Place", target_key: str) -> None:
        """Copies one value, inside the store if it can."""
        target._changes()
        if self.bucket == target.bucket and self.store.copy(key, target_key):
            return
        content = self.store.read(key)
        if content is None:
            raise FileNotFoundError(f"{self.bucket}/{key}: there is no such object")
        target.store.write(target_key, content)


def modified_ns(url: Any) -> int:
    """When a value, or the newest one of a folder, was written, in nanoseconds since 1970."""
    place = Place(os.fspath(url))
    found = place.find()
    if found is not None and not found[0]:
        return found[2]
    values, _ = (place.listing or place.store).list_values(place.folder, _MOST)
    return max((time for _, _, time in values), default=0)


class _Writer(io.RawIOBase):
    """A value that is written from front to back. It appears when the file is closed."""

    def __init__(self, place: Place, first: bytes) -> None:
        self._appender = place.append()
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
