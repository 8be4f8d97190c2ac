"""A server that speaks as much of S3 as a reader needs, on 127.0.0.1, in a thread of this process.

So a call that waits for the store and keeps Python's lock waits for ever.
"""

import contextlib
import hashlib
import http.server
import pathlib
import threading
import urllib.parse
from xml.sax.saxutils import escape

BUCKET, ACCESS, SECRET = "bucket", "reader", "s3cr3t/not+in.messages"


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, root, anonymous):
        super().__init__(("127.0.0.1", 0), Handler)
        self.root, self.anonymous = pathlib.Path(root), anonymous
        self.refuses = False  # all keys, as a wrong secret

    @property
    def options(self):
        keys = {} if self.anonymous else {"access_key": ACCESS, "secret_key": SECRET}
        endpoint = f"http://127.0.0.1:{self.server_port}"
        return {"endpoint": endpoint, "anonymous": self.anonymous, "retry_time": 5, **keys}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        key = urllib.parse.unquote(url.path).removeprefix(f"/{BUCKET}").removeprefix("/")
        if not self.is_allowed():
            self.fail(403, "SignatureDoesNotMatch")
        elif key:
            self.send_object(self.server.root / key)
        else:
            self.send_list(dict(urllib.parse.parse_qsl(url.query)))

    do_HEAD = do_GET

    def is_allowed(self):
        signed = self.headers.get("authorization")
        if self.server.anonymous:
            return signed is None
        return not self.server.refuses and f"Credential={ACCESS}/" in (signed or "")

    def send_object(self, file):
        if not file.is_file():
            return self.fail(404, "NoSuchKey")
        content = file.read_bytes()
        if self.headers.get("if-match", etag(content)) != etag(content):
            return self.fail(412, "PreconditionFailed")
        headers, status = {"ETag": etag(content)}, 200
        if "range" in self.headers:
            first, last = self.headers["range"].removeprefix("bytes=").split("-")
            size, status = len(content), 206
            content = content[int(first) : int(last) + 1]
            headers["Content-Range"] = f"bytes {first}-{int(first) + len(content) - 1}/{size}"
        self.answer(status, content, headers)

    def send_list(self, query):
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter")
        files = (file for file in sorted(self.server.root.rglob("*")) if file.is_file())
        keys = {file.relative_to(self.server.root).as_posix(): file for file in files}
        found, folders = [], {}
        for key, file in keys.items():
            if not key.startswith(prefix):
                continue
            folder, is_below, _ = key[len(prefix) :].partition(delimiter or "\0")
            if is_below:
                folders[f"{prefix}{folder}/"] = None
            else:
                content = file.read_bytes()
                found.append(
                    f"<Contents><Key>{escape(urllib.parse.quote(key))}</Key><Size>{len(content)}</Size>"
                    f"<ETag>{escape(etag(content))}</ETag>"
                    "<LastModified>2026-01-01T00:00:00.000Z</LastModified></Contents>"
                )
        for folder in folders:
            name = escape(urllib.parse.quote(folder))
            found.append(f"<CommonPrefixes><Prefix>{name}</Prefix></CommonPrefixes>")
        page = f"<ListBucketResult><IsTruncated>false</IsTruncated>{''.join(found)}</ListBucketResult>"
        self.answer(200, page.encode(), {"Content-Type": "application/xml"})

    def fail(self, status, code):
        self.answer(status, f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode())

    def answer(self, status, body, headers=None):
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass


def etag(content):
    return f'"{hashlib.md5(content).hexdigest()}"'


@contextlib.contextmanager
def serving(root, anonymous=False):
    """The files below a folder as objects of a bucket."""
    with Server(root, anonymous) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
