"""A store on loopback that answers whatever a test makes up."""

import contextlib
import socket
import threading
import urllib.parse

from web_stub import Strict  # noqa: F401  (the honest one, for comparison)


class Request:
    """The first line of a request, and its headers."""

    def __init__(self, head):
        line, *headers = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = line.split(" ")
        parts = urllib.parse.urlsplit(self.target)
        self.path = urllib.parse.unquote(parts.path)
        self.query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
        self.headers = {
            name.lower(): value for name, _, value in (header.partition(": ") for header in headers)
        }


def answer(status, body=b"", **headers):
    """The bytes of an answer; headers with '_' for '-'."""
    headers = {"Content-Length": len(body), **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + body


@contextlib.contextmanager
def serving(respond):
    """The address of a server. `respond(request)` gives pieces of bytes; the connection stays open
    after the last one, unless it gives None."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=64)
    threading.Thread(target=accept, args=(listener, respond), daemon=True).start()
    try:
        yield f"127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def accept(listener, respond):
    with contextlib.suppress(OSError):
        while True:
            client, _ = listener.accept()
            threading.Thread(target=serve, args=(client, respond), daemon=True).start()


def serve(client, respond):
    with client, contextlib.suppress(OSError, ValueError):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        received = b""
        while True:
            while b"\r\n\r\n" not in received:
                more = client.recv(1 << 16)
                if not more:
                    return
                received += more
            head, _, received = received.partition(b"\r\n\r\n")
            for piece in respond(Request(head)):
                if piece is None:
                    return
                client.sendall(piece)
