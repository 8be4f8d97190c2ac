"""Reads the small files of a checkpoint, which may be damaged or hostile, and writes them."""

import io
import json
import os
import secrets
import stat
from typing import Any

from cairn.orbax._impl.paths.object_stores import Place
from cairn.orbax._impl.paths.store_path import StorePath, is_store_url

_MAX_SIZE = 1 << 30  # as in the native part
_BLOCK = 1 << 24


def open_regular(path: Any) -> "io.BufferedReader | io.BytesIO":
    """Opens a file of bytes. ValueError for a pipe, which is not waited for, a device and so on."""
    if is_store_url(path):
        return io.BytesIO(StorePath(path).read_bytes())
    descriptor = os.open(os.fspath(path), os.O_RDONLY | getattr(os, "O_NONBLOCK", 0))
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{path}: is not a regular file")
    return open(descriptor, "rb")


def read_text(path: Any) -> str:
    """The text of a file.

    Raises ValueError, which names the file, for what is not text or not a regular file. A sparse
    file, which claims any size, ends at its first NUL, and a pipe does not wait for a writer.
    """
    with open_regular(path) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        if size > _MAX_SIZE:
            raise ValueError(f"{path}: has {size} bytes, at most {_MAX_SIZE} are expected")
        blocks = []
        while block := file.read(_BLOCK):
            if b"\0" in block:
                raise ValueError(f"{path}: has a NUL byte, which is not allowed in text")
            blocks.append(block)
    try:
        return b"".join(blocks).decode()
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: {error}") from None


def write_whole(path: Any, content: bytes, *, durable: bool = False) -> None:
    """Writes a file that appears complete or not at all, also after a power failure if `durable`.

    Raises OSError; what is at the path, and beside it, then stays as it was.
    """
    if is_store_url(path):
        StorePath(path).write_bytes(content)
        return
    temporary = f"{os.fspath(path)}.{secrets.token_hex(8)}.tmp"
    # Only a new file: never through a link that somebody else has made.
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise


def create_whole(path: Any, content: bytes) -> None:
    """Writes a file of a store in one step. Raises FileExistsError if it is there already."""
    if not Place(os.fspath(path)).create(content):
        raise FileExistsError(f"{path}: exists")


def load_json(path: Any) -> Any:
    """The value of a file of JSON. Raises ValueError, which names the file, if it is damaged."""
    text = read_text(path)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: {error}") from error
