"""An HTTP/1.1 proxy on 127.0.0.1 that is slow and makes faults on purpose, before a real store.

In a test: `with FaultProxy(port, [Fault("lost", nth=3)]) as proxy`, then use `proxy.endpoint` and
look at `proxy.log`. As a program: fault_proxy.py LISTEN UPSTREAM --fault lost:nth=3; then
GET /__stats answers the counts and the log as JSON.

The Host header passes unchanged, so a signature for the proxy's port is right at the store. The
proxy holds the whole body of a request in memory, and passes answers on as they come.
"""

import argparse
import asyncio
import contextlib
import dataclasses
import json
import re
import socket
import struct
import sys
import threading
import time

import gcs_strict
from http_messages import STREAM_LIMIT, Closed, answer, blocks, read_head

HOST = "127.0.0.1"
SIGNING = re.compile(r"^(x-amz-|x-goog-)(algorithm|credential|date|expires|signature|signed)")


def error_body(code):
    text = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>a fault</Message></Error>"
    return text.encode()


# Faults that the proxy answers itself. The store does not see the request.
ANSWERED = {
    "503": ("503 Slow Down", error_body("SlowDown")),
    "429": ("429 Too Many Requests", error_body("TooManyRequests")),
    "500": ("500 Internal Server Error", error_body("InternalError")),
    "error200": ("200 OK", error_body("InternalError")),
    "expired": ("400 Bad Request", error_body("ExpiredToken")),
    "unauthorized": ("401 Unauthorized", b'{"error": {"code": 401, "message": "a fault"}}'),
}
# Faults of the connection or of the answer's bytes.
KINDS = {
    **ANSWERED,
    "drop": "closes the connection before the store sees the request",
    "lost": "passes the request on, and closes the connection instead of the answer",
    "reset": "resets the connection in the middle of the answer's body",
    "cut": "closes the connection in the middle of the answer's body",
    "stall": "sends half of the answer's body, and nothing more for `stall_seconds`",
    "range": "names another range in the answer than the one asked for",
}


@dataclasses.dataclass
class Fault:
    """One kind of fault, and which requests get it: every k-th, the n-th, or all after some."""

    kind: str
    every: int = 0
    phase: int = 0  # of `every`: request 3, 3 + k, 3 + 2k, ... for phase 3
    nth: int = 0  # from 1
    after: int = -1  # all requests after so many: the store is gone; -1: none
    match: str = ""  # a regular expression on "METHOD target"
    limit: int = 0  # no more than so many; 0: no limit
    retry_after: str = ""
    stall_seconds: float = 30
    seen: int = 0
    made: int = 0

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"no fault '{self.kind}'; there are {', '.join(KINDS)}")
        for name in ("every", "phase", "nth", "after", "limit"):
            setattr(self, name, int(getattr(self, name)))
        self.stall_seconds = float(self.stall_seconds)

    def hits(self, request):
        """Counts a request. Returns whether it gets the fault."""
        if not re.search(self.match, request):
            return False
        self.seen += 1
        due = (
            self.seen == self.nth
            or (self.every and self.seen % self.every == self.phase)
            or 0 <= self.after < self.seen
        )
        if not due or (self.limit and self.made >= self.limit):
            return False
        self.made += 1
        return True


@dataclasses.dataclass
class Request:
    """One line of the log."""

    round: int  # 1 + the highest round of the requests that were answered when this one came
    method: str
    key: str  # the path, and the query without a signature
    range: str = ""
    status: int = 0  # 0: no answer
    fault: str = ""
    # Positions among all beginnings and ends: one request ended before another began.
    began: int = 0
    ended: int = 0


@dataclasses.dataclass
class Pace:
    """Bytes per second of all connections together, in one direction; 0: no limit."""

    bandwidth: float = 0
    free_at: float = 0

    async def take(self, size):
        if self.bandwidth:
            self.free_at = max(self.free_at, time.monotonic()) + size / self.bandwidth
            await asyncio.sleep(self.free_at - time.monotonic())


def key_of(head):
    kept = [
        f"{name}={value}"
        for name, value in sorted(head.query.items())
        if not SIGNING.match(name.lower()) and name.lower() != "x-amz-security-token"
    ]
    return head.path + ("?" + "&".join(kept) if kept else "")


class FaultProxy:
    def __init__(
        self, upstream, faults=(), *, listen=0, delay=0.0, bandwidth=0.0, gcs_strict_mode=False
    ):
        self.upstream = upstream
        self.faults = list(faults)
        self.delay = delay  # seconds that are added to each request
        self._up, self._down = Pace(bandwidth), Pace(bandwidth)
        self._strict = gcs_strict.Strict(self._connect) if gcs_strict_mode else None
        self._socket = socket.create_server((HOST, listen), backlog=512)
        self.port = self._socket.getsockname()[1]
        self.endpoint = f"http://{HOST}:{self.port}"
        self.clear()

    def clear(self):
        """Forgets what was counted so far."""
        self.log = []
        self.bytes_up = self.bytes_down = self.connections = self.peak_connections = 0
        self._open = self._round = self._events = 0

    @property
    def rounds(self):
        return max((request.round for request in self.log), default=0)

    def stats(self):
        return {
            "requests": len(self.log),
            "rounds": self.rounds,
            "bytes_up": self.bytes_up,
            "bytes_down": self.bytes_down,
            "connections": self.connections,
            "peak_connections": self.peak_connections,
            "faults": [dataclasses.asdict(fault) for fault in self.faults],
            "log": [dataclasses.asdict(request) for request in self.log],
        }

    # As a context: the proxy works in a thread with an event loop of its own.
    def __enter__(self):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._main.cancel)
        self._thread.join()

    def _run(self):
        self._main = self._loop.create_task(self.serve())
        with contextlib.suppress(asyncio.CancelledError):
            self._loop.run_until_complete(self._main)
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def serve(self):
        server = await asyncio.start_server(
            self._serve_client, sock=self._socket, limit=STREAM_LIMIT
        )
        async with server:
            await server.serve_forever()

    async def _connect(self):
        return await asyncio.open_connection(HOST, self.upstream, limit=STREAM_LIMIT)

    async def _serve_client(self, reader, writer):
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections += 1
        self._open += 1
        self.peak_connections = max(self.peak_connections, self._open)
        exchange = Exchange(self, reader, writer)
        try:
            while await exchange.next():
                pass
        except (Closed, ConnectionError, asyncio.CancelledError):
            pass  # asyncio would print the last one
        finally:
            self._open -= 1
            exchange.close()

    def begin(self, head):
        self._events += 1
        range_asked = head.headers.get("range", "")
        request = Request(self._round + 1, head.method, key_of(head), range_asked)
        request.began = self._events
        self.log.append(request)
        return request

    def end(self, request):
        self._events += 1
        request.ended = self._events
        self._round = max(self._round, request.round)

    def fault_of(self, head):
        """The first fault that is due. All of them count the request."""
        hit = [fault for fault in self.faults if fault.hits(f"{head.method} {head.target}")]
        return hit[0] if hit else None


class Exchange:
    """The requests of one client's connection, one after the other."""

    def __init__(self, proxy, reader, writer):
        self._proxy = proxy
        self._reader, self._writer = reader, writer
        self._store = None  # the connection to the store

    def close(self):
        for writer in (self._writer, self._store and self._store[1]):
            if writer:
                writer.close()

    async def next(self):
        """Serves one request. Returns whether the connection stays open."""
        head = await read_head(self._reader)
        if head.path == "/__stats":
            await self._write(answer("200 OK", json.dumps(self._proxy.stats()).encode()))
            return True
        request, fault = self._proxy.begin(head), self._proxy.fault_of(head)
        try:
            return await self._serve(head, request, fault)
        finally:
            self._proxy.end(request)

    async def _serve(self, head, request, fault):
        kind = request.fault = fault.kind if fault else ""
        if kind in ANSWERED and "100-continue" in head.headers.get("expect", ""):
            await self._refuse(head, request, fault)  # the client keeps its body
            return False
        wire = await self._read_body(head)
        await asyncio.sleep(self._proxy.delay)
        if kind in ANSWERED:
            await self._refuse(head, request, fault)
            return True
        if kind == "drop":
            return False
        return await self._pass_on(head, wire, request, fault)

    async def _read_body(self, head):
        if "100-continue" in head.headers.get("expect", ""):
            await self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
        parts = []
        async for block in blocks(self._reader, head):
            parts.append(block)
            await self._proxy._up.take(len(block))
            self._proxy.bytes_up += len(block)
        return b"".join(parts)

    async def _refuse(self, head, request, fault):
        status, body = ANSWERED[fault.kind]
        request.status = int(status[:3])
        headers = [("Content-Type", "application/xml")]
        if fault.retry_after:
            headers.append(("Retry-After", fault.retry_after))
        await self._write(answer(status, body, headers, head.method == "HEAD"))

    async def _pass_on(self, head, wire, request, fault):
        strict = self._proxy._strict
        if not strict or (head.method in ("GET", "HEAD") and "Match" not in head.target):
            reply = await self._ask_store(head, wire)
            return await self._answer(head, reply, request, fault)
        async with strict.lock:
            refusal = await strict.refusal(head, wire)
            if not refusal:
                reply = await self._ask_store(head, wire)
                body = b"".join([block async for block in self._body_of(head, reply)])
                strict.note(head, wire, reply, body)
        if refusal:
            request.status = int(refusal[9:12])
            if fault and fault.kind == "lost":
                return False
            await self._write(refusal)
            return True
        return await self._answer(head, reply, request, fault, body)

    async def _ask_store(self, head, wire):
        """Sends a request. A connection that the store closed meanwhile is replaced."""
        raw = head.without("expect") + wire
        while True:
            fresh = self._store is None
            if fresh:
                self._store = await self._proxy._connect()
            reader, writer = self._store
            try:
                writer.write(raw)
                await writer.drain()
                reply = await read_head(reader)
                while reply.status == 100:
                    reply = await read_head(reader)
                return reply
            except (Closed, ConnectionError):
                writer.close()
                self._store = None
                if fresh:
                    raise Closed from None

    def _body_of(self, head, reply):
        if head.method == "HEAD" or reply.status in (204, 304):
            return nothing()
        return blocks(self._store[0], reply, until_closed=True)

    async def _answer(self, head, reply, request, fault, body=None):
        """Passes the answer on, or what the fault leaves of it."""
        kind = fault.kind if fault else ""
        request.status = reply.status
        if kind == "lost":
            return False
        raw = self._with_own_location(reply)
        if kind == "range":
            raw = re.sub(
                rb"(?i)(content-range: bytes )(\d+)",
                lambda found: found[1] + str(int(found[2]) + 1).encode(),
                raw,
            )
        await self._write(raw)
        most = reply.length // 2 if kind in ("cut", "reset", "stall") else None
        whole = await self._copy(one(body) if body else self._body_of(head, reply), most)
        if kind == "stall":
            await asyncio.sleep(fault.stall_seconds)
        if kind == "reset":
            self._reset()
        closes = any("close" in one.headers.get("connection", "") for one in (head, reply))
        unbounded = "content-length" not in reply.headers and not reply.is_chunked
        bodiless = reply.status in (204, 304) or head.method == "HEAD"
        return whole and not closes and (bodiless or not unbounded)

    def _with_own_location(self, reply):
        """The head of an answer that sends the client on to this proxy, not past it."""
        past = f"http://{HOST}:{self._proxy.upstream}/"
        if not reply.headers.get("location", "").startswith(past):
            return reply.raw
        return reply.raw.replace(past.encode(), f"{self._proxy.endpoint}/".encode())

    async def _copy(self, body, most):
        """Copies a body, or its first `most` bytes. Returns whether that was all."""
        left = most
        async for block in body:
            await self._proxy._down.take(len(block))
            part = block if left is None else block[:left]
            await self._write(part)
            self._proxy.bytes_down += len(part)
            if left is not None:
                left -= len(part)
                if left == 0:
                    return False
        return most is None

    async def _write(self, data):
        self._writer.write(data)
        await self._writer.drain()

    def _reset(self):
        linger = struct.pack("ii", 1, 0)
        client = self._writer.get_extra_info("socket")
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._writer.transport.abort()


async def nothing():
    return
    yield b""


async def one(block):
    yield block


def parse_fault(text):
    kind, _, options = text.partition(":")
    return Fault(kind, **dict(option.split("=", 1) for option in options.split(",") if option))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("listen", type=int)
    parser.add_argument("upstream", type=int, help="the port of the store on 127.0.0.1")
    parser.add_argument(
        "--fault",
        action="append",
        type=parse_fault,
        default=[],
        help="KIND:every=K,match=REGEX,limit=N or KIND:nth=N: " + ", ".join(KINDS),
    )
    parser.add_argument("--delay", type=float, default=0, help="seconds for each request")
    parser.add_argument("--bandwidth", type=float, default=0, help="bytes/s each way")
    parser.add_argument(
        "--gcs-strict",
        action="store_true",
        help="check what Google checks and fake-gcs-server does not",
    )
    given = parser.parse_args()
    proxy = FaultProxy(
        given.upstream,
        given.fault,
        listen=given.listen,
        delay=given.delay,
        bandwidth=given.bandwidth,
        gcs_strict_mode=given.gcs_strict,
    )
    try:
        asyncio.run(proxy.serve())
    except KeyboardInterrupt:
        sys.exit(0)


if __name__ == "__main__":
    main()
