"""Web servers on loopback that list nothing: a strict one, and Python's, which ignores ranges."""

import contextlib
import functools
import http.server
import pathlib
import threading
import urllib.parse


class Strict(http.server.BaseHTTPRequestHandler):
    """Ranges, ETags and conditions; 404 for folders and for what is absent."""

    protocol_version = "HTTP/1.1"

    def __init__(self, folder, seen, *args):
        self.folder, self.seen = pathlib.Path(folder), seen
        super().__init__(*args)

    def log_message(self, *_):
        pass

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.seen.append((self.command, self.path))
        file = self.folder / urllib.parse.unquote(self.path[1:])
        if not file.is_file():
            return self.answer(404)
        body = file.read_bytes()
        etag = f'"{file.stat().st_mtime_ns:x}-{len(body):x}"'
        if self.headers.get("If-Match", etag) != etag:
            return self.answer(412)
        headers = [("ETag", etag), ("Accept-Ranges", "bytes")]
        wanted = self.headers.get("Range")
        if not wanted:
            return self.answer(200, body, headers)
        first, last = map(int, wanted.removeprefix("bytes=").split("-"))
        if first >= len(body):
            return self.answer(416, b"", [("Content-Range", f"bytes */{len(body)}")])
        part = body[first : last + 1]
        headers.append(("Content-Range", f"bytes {first}-{first + len(part) - 1}/{len(body)}"))
        self.answer(206, part, headers)

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in [*headers, ("Content-Length", str(len(body)))]:
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


class Plain(http.server.SimpleHTTPRequestHandler):
    """python -m http.server: no ranges, no ETags, and pages that list folders."""

    def __init__(self, folder, seen, *args):
        self.seen = seen
        super().__init__(*args, directory=str(folder))

    def log_message(self, *_):
        pass

    def send_head(self):
        self.seen.append((self.command, self.path))
        return super().send_head()


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextlib.contextmanager
def serving(folder, handler=Strict):
    """The URL of the folder's server, and the requests that it has seen."""
    seen = []
    server = _Server(("127.0.0.1", 0), functools.partial(handler, folder, seen))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", seen
    finally:
        server.shutdown()
        server.server_close()
