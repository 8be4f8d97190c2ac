"""StorePath: the path of a file or a folder in an object store."""

import fnmatch
import os
import pathlib
import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from cairn.orbax._impl.paths.object_stores import SCHEMES, Place, open_file

try:
    from etils import epath

    # The class of epath.Path("gs://..."), so that epath.Path(path) returns the path as it is.
    _Base: Any = type(epath.Path("/"))
except ImportError:
    _Base = pathlib.PurePosixPath


class StatResult(NamedTuple):
    """What is known of a path: the size in bytes, and the time in seconds since 1970."""

    is_directory: bool
    length: int
    mtime: int
    owner: "str | None" = None
    group: "str | None" = None
    mode: "int | None" = None


def is_store_url(path: Any) -> bool:
    """Whether a path is the URL of an object store or of the Hugging Face Hub."""
    scheme, mark, _ = os.fspath(path).partition("://")
    return bool(mark) and scheme in SCHEMES


def _rooted(part: Any) -> Any:
    """`gs://bucket/x` as /gs/bucket/x, which pathlib does not change."""
    text = os.fspath(part)
    scheme, mark, rest = text.partition("://")
    return f"/{scheme}/{rest}" if mark and scheme in SCHEMES else text


class StorePath(_Base):  # type: ignore[misc]
    """A path in an object store, with the interface of epath.Path.

    It is an epath.Path if etils is installed, else a pathlib.PurePosixPath. A folder is there while
    there is a file in it. Reads see whole files. Files appear when they are closed.
    """

    if sys.version_info < (3, 12):

        def __new__(cls, *parts: Any) -> Any:
            return super().__new__(cls, *(_rooted(part) for part in parts))

    else:

        def __init__(self, *parts: Any) -> None:
            super().__init__(*(_rooted(part) for part in parts))

    @property
    def _path_str(self) -> str:
        parts = self.parts
        if len(parts) > 1 and parts[0] == "/" and parts[1] in SCHEMES:
            return f"{parts[1]}://{'/'.join(parts[2:])}"
        if not parts:
            return "."
        return parts[0] + "/".join(parts[1:]) if parts[0] == "/" else "/".join(parts)

    @property
    def _place(self) -> Place:
        return Place(self._path_str)

    def __str__(self) -> str:
        return self._path_str

    def __fspath__(self) -> str:
        return self._path_str

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._path_str!r})"

    def as_uri(self) -> str:
        """The URL."""
        return self._path_str

    def joinpath(self, *parts: Any) -> Any:
        """The path below this one."""
        return type(self)(self, *parts)

    def __truediv__(self, part: Any) -> Any:
        return self.joinpath(part) if isinstance(part, (str, os.PathLike)) else NotImplemented

    def format(self, *args: Any, **kwargs: Any) -> Any:
        """The path with str.format()."""
        return type(self)(self._path_str.format(*args, **kwargs))

    def relative_to(self, *other: Any) -> Any:
        """The part of the path below another one."""
        return super().relative_to(type(self)(*other))

    def is_relative_to(self, *other: Any) -> bool:
        """Whether the path is another one, or below it."""
        ancestor = type(self)(*other)
        return self == ancestor or ancestor in self.parents

    def expanduser(self) -> Any:
        """The path itself."""
        return self

    def absolute(self) -> Any:
        """The path itself."""
        return self

    def resolve(self, strict: bool = False) -> Any:
        """The path itself; strict: FileNotFoundError if nothing is there."""
        if strict and not self.exists():
            raise FileNotFoundError(f"{self}: there is no such object or folder")
        return self

    def exists(self) -> bool:
        """Whether there is a file, or a folder with files."""
        return self._place.find() is not None

    def is_dir(self) -> bool:
        """Whether files are below the path."""
        return self._place.has_values_below()

    def is_file(self) -> bool:
        """Whether there is a file."""
        found = self._place.find()
        return found is not None and not found[0]

    def is_symlink(self) -> bool:
        """False."""
        return False

    def stat(self) -> Any:
        """is_directory, length in bytes, and mtime in seconds since 1970."""
        found = self._place.find()
        if found is None:
            raise FileNotFoundError(f"{self}: there is no such object or folder")
        is_folder, size, time = found
        return StatResult(is_directory=is_folder, length=size, mtime=time // 1_000_000_000)

    def iterdir(self) -> "Iterator[Any]":
        """The files and folders of a folder."""
        place = self._place
        files, folders = place.level()
        if not files and not folders and place.key:
            if self.exists():
                raise NotADirectoryError(f"{self}: is a file")
            raise FileNotFoundError(f"{self}: there is no such folder")
        return iter([self / name for name in sorted(files + folders)])

    def listdir(self) -> "list[Any]":
        """The files and folders of a folder, as a list."""
        return list(self.iterdir())

    def glob(self, pattern: str) -> "Iterator[Any]":
        """What is below the path with names of a pattern: *, ?, [abc], and ** for any folders."""
        return iter(sorted(self._matches([part for part in pattern.split("/") if part])))

    def rglob(self, pattern: str) -> "Iterator[Any]":
        """What is anywhere below the path with names of a pattern."""
        return self.glob(f"**/{pattern}")

    def _matches(self, patterns: "list[str]") -> "set[Any]":
        if not patterns:
            return {self}
        first, rest = patterns[0], patterns[1:]
        if first == "**":
            return self._matches_below(rest)
        if not any(sign in first for sign in "*?["):
            below = self / first
            return below._matches(rest) if rest or below.exists() else set()
        files, folders = self._place.level()
        names = folders if rest else files + folders
        found: "set[Any]" = set()
        for name in names:
            if fnmatch.fnmatchcase(name, first):
                found |= (self / name)._matches(rest)
        return found

    def _matches_below(self, patterns: "list[str]") -> "set[Any]":
        place = self._place
        names: "set[str]" = set()
        for key in place.keys_below():
            parts = key[len(place.folder) :].split("/")
            names.update("/".join(parts[:count]) for count in range(1, len(parts) + 1))
        if not patterns:  # folders
            return {self} | {self / os.path.dirname(name) for name in names if "/" in name}
        return {self / name for name in names if _ends_with(name.split("/"), patterns)}

    def walk(
        self, *, top_down: bool = True, on_error: "Callable[[OSError], object] | None" = None
    ) -> "Iterator[tuple[Any, list[str], list[str]]]":
        """(folder, names of folders, names of files) of the path and of all folders below it."""
        del on_error
        files, folders = self._place.level()
        if top_down:
            yield self, folders, files
        for name in folders:
            yield from (self / name).walk(top_down=top_down)
        if not top_down:
            yield self, folders, files

    def open(
        self,
        mode: str = "r",
        encoding: "str | None" = None,
        errors: "str | None" = None,
        **kwargs: Any,
    ) -> Any:
        """Opens a file to read (r), or to write it whole (w), anew (x) or further (a)."""
        if errors or kwargs:
            raise NotImplementedError("open() of a store takes mode and encoding only")
        return open_file(self._place, mode, encoding)

    def read_bytes(self) -> bytes:
        """The bytes of a file."""
        return self._place.read()

    def read_text(self, encoding: "str | None" = None, errors: "str | None" = None) -> str:
        """The text of a file."""
        return self._place.read().decode(encoding or "utf-8", errors or "strict")

    def write_bytes(self, data: Any) -> int:
        """Writes a file, whole or not at all."""
        content = bytes(data)
        self._place.write(content)
        return len(content)

    def write_text(
        self, data: str, encoding: "str | None" = None, errors: "str | None" = None
    ) -> int:
        """Writes a file of text, whole or not at all."""
        self.write_bytes(data.encode(encoding or "utf-8", errors or "strict"))
        return len(data)

    def touch(self, mode: int = 0o666, exist_ok: bool = True) -> None:
        """Makes an empty file unless there is one."""
        del mode
        if not self._place.create(b"") and not exist_ok:
            raise FileExistsError(f"{self}: exists")

    def mkdir(
        self, mode: "int | None" = None, parents: bool = False, exist_ok: bool = False
    ) -> None:
        """Does nothing: a store has no folders of their own. Raises FileExistsError as epath."""
        del mode, parents
        if not exist_ok and self.exists():
            raise FileExistsError(f"{self}: exists")

    def rmdir(self) -> None:
        """Does nothing where no folder is. Raises OSError for a folder with files."""
        found = self._place.find()
        if found is not None and not found[0]:
            raise NotADirectoryError(f"{self}: is a file")
        if found is not None:
            raise OSError(f"{self}: the folder is not empty")

    def rmtree(self, missing_ok: bool = False) -> None:
        """Removes all files below the path."""
        place = self._place
        keys = place.keys_below()
        if keys:
            # The mark of a complete checkpoint goes first: what is left is no checkpoint.
            marks = [key for key in keys if key.endswith("/commit_success.txt")]
            place.remove(marks)
            place.remove([key for key in keys if key not in set(marks)])
        elif self.is_file():
            place.remove([place.key])
        elif not missing_ok:
            raise FileNotFoundError(f"{self}: there is no such folder")

    def unlink(self, missing_ok: bool = False) -> None:
        """Removes a file."""
        place = self._place
        found = place.find()
        if found is not None and found[0]:
            raise IsADirectoryError(f"{self}: is a folder")
        if found is not None:
            place.remove([place.key])
        elif not missing_ok:
            raise FileNotFoundError(f"{self}: there is no such object")

    def rename(self, target: Any) -> Any:
        """Copies the file or folder, and removes this one. Not one step, as stores have none."""
        new = type(self)(target)
        if new.exists():
            raise FileExistsError(f"{new}: exists")
        return self._move(new)

    def replace(self, target: Any) -> Any:
        """As rename(), also where a file is at the target."""
        new = type(self)(target)
        if new.is_dir():
            raise IsADirectoryError(f"{new}: is a folder")
        return self._move(new)

    def _move(self, new: Any) -> Any:
        source, target = self._place, new._place
        target.check_is_named()
        if self.is_file():
            moved = {source.key: target.key}
        else:
            below = source.keys_below()
            moved = {key: target.folder + key[len(source.folder) :] for key in below}
        if not moved:
            raise FileNotFoundError(f"{self}: there is no such object or folder")
        for key, new_key in moved.items():
            source.copy_value(key, target, new_key)
        source.remove(list(moved))
        return new

    def copy(self, dst: Any, overwrite: bool = False) -> Any:
        """Copies a file to a path of a store, or to a local one."""
        if is_store_url(dst):
            new = type(self)(dst)
            if new.is_dir():
                raise IsADirectoryError(f"{new}: is a folder")
            if not overwrite and new.exists():
                raise FileExistsError(f"{new}: exists")
            self._place.copy_value(self._place.key, new._place, new._place.key)
            return new
        with open(dst, "wb" if overwrite else "xb") as file:
            file.write(self.read_bytes())
        return dst


def _ends_with(parts: "list[str]", patterns: "list[str]") -> bool:
    """Whether the last parts of a name are of the patterns."""
    last = parts[-len(patterns) :]
    return len(last) == len(patterns) and all(map(fnmatch.fnmatchcase, last, patterns))
