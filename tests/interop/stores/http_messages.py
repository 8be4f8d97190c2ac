"""Reads HTTP/1.1 messages from asyncio streams, for the fault proxy."""

import asyncio
import dataclasses
from urllib.parse import parse_qsl, unquote, urlsplit

STREAM_LIMIT = 1 << 20  # bytes of a head
BLOCK = 1 << 16


class Closed(Exception):
    """The other side closed its connection between two messages, or within one."""


@dataclasses.dataclass
class Head:
    """The first line and the headers of a request or an answer."""

    raw: bytes
    line: str
    headers: dict

    @property
    def length(self):
        return int(self.headers.get("content-length", 0))

    @property
    def is_chunked(self):
        return "chunked" in self.headers.get("transfer-encoding", "").lower()

    @property
    def method(self):
        return self.line.split(" ")[0]

    @property
    def target(self):
        return self.line.split(" ")[1]

    @property
    def path(self):
        return unquote(urlsplit(self.target).path)

    @property
    def query(self):
        return dict(parse_qsl(urlsplit(self.target).query, keep_blank_values=True))

    @property
    def status(self):
        return int(self.line.split(" ")[1])

    def without(self, *names):
        """The bytes of the head, without some headers."""
        lines = self.raw[:-4].split(b"\r\n")
        names = [name.encode() for name in names]
        kept = [x for x in lines[1:] if x.partition(b":")[0].strip().lower() not in names]
        return b"\r\n".join([lines[0], *kept]) + b"\r\n\r\n"


async def read_head(reader):
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError) as error:
        raise Closed from error
    lines = raw[:-4].decode("latin1").split("\r\n")
    headers = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        headers[name.strip().lower()] = value.strip()
    return Head(raw, lines[0], headers)


async def blocks(reader, head, until_closed=False):
    """The body as it is on the wire, with the frames of chunks."""
    try:
        if head.is_chunked:
            async for block in _chunks(reader):
                yield block
            return
        left = head.length
        if until_closed and "content-length" not in head.headers:
            while block := await reader.read(BLOCK):
                yield block
        while left > 0:
            block = await reader.read(min(left, BLOCK))
            if not block:
                raise Closed
            left -= len(block)
            yield block
    except (asyncio.IncompleteReadError, ConnectionError) as error:
        raise Closed from error


async def _chunks(reader):
    size = 1
    while size > 0:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        yield line
        if size > 0:
            yield await reader.readexactly(size + 2)
    while line != b"\r\n":
        line = await reader.readuntil(b"\r\n")
        yield line


def plain_body(head, wire):
    """The body without the frames of chunks."""
    if not head.is_chunked:
        return wire
    parts, at = [], 0
    while True:
        end = wire.index(b"\r\n", at)
        size = int(wire[at:end].split(b";")[0], 16)
        if size == 0:
            return b"".join(parts)
        parts.append(wire[end + 2 : end + 2 + size])
        at = end + 2 + size + 2


def answer(status, body=b"", headers=(), head_only=False):
    """The bytes of an answer that the proxy makes itself."""
    lines = [
        f"HTTP/1.1 {status}",
        *(f"{name}: {value}" for name, value in headers),
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (b"" if head_only else body)
