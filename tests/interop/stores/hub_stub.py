"""A Hugging Face Hub on loopback: repositories in memory, and a second host for large files.

It answers as the Hub does where huggingface_hub and Cairn look: revisions, listings in pages,
redirects with the hash and the size of what they lead to, and errors with X-Error-Code. test_hub.py
tests it with huggingface_hub itself.
"""

import dataclasses
import hashlib
import http.server
import json
import threading
import urllib.parse

PAGE = 5  # entries of a listing
LARGE = 10_000  # bytes: files from here on are delivered by the other host
KINDS = {"models": "", "datasets": "datasets/", "spaces": "spaces/"}


def digest(text):
    return hashlib.sha1(text).hexdigest()


@dataclasses.dataclass
class Repository:
    """Its versions by commit, and the commits of its revisions."""

    commits: dict  # commit -> {path: bytes}
    revisions: dict  # name -> commit
    is_private: bool = False
    is_gated: bool = False

    @classmethod
    def of(cls, files, **options):
        commit = digest(repr(sorted(files)).encode())
        return cls({commit: dict(files)}, {"main": commit}, **options)

    def add(self, revision, files):
        """A version of its own, under a name."""
        commit = digest(revision.encode() + repr(sorted(files.items())).encode())
        self.commits[commit] = dict(files)
        self.revisions[revision] = commit
        return commit


@dataclasses.dataclass(frozen=True)
class Seen:
    """A request as it came, and how much was answered."""

    host: str  # "hub" or "cdn"
    method: str
    target: str
    authorization: str  # "" if there was none
    sent: int  # bytes of the body


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    stub = None
    host = ""

    def log_message(self, *_):
        pass

    def answer(self, status, body=b"", headers=()):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name == "Content-Length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        sent = 0 if self.command == "HEAD" else len(body)
        self.stub.note(self, sent)
        if sent:
            self.wfile.write(body)

    def fail(self, status, code, message):
        headers = [("X-Error-Message", message), ("Content-Type", "application/json")]
        if code:
            headers.append(("X-Error-Code", code))
        self.answer(status, json.dumps({"error": message}).encode(), headers)

    def send_bytes(self, body, headers):
        """The file, or the range of it that was asked for."""
        wanted = self.headers.get("Range")
        headers = [*headers, ("Accept-Ranges", "bytes")]
        if wanted is None:
            headers.append(("Content-Length", str(len(body))))
            return self.answer(200, body, headers)
        first, last = wanted.removeprefix("bytes=").split("-")
        first, last = int(first), min(int(last or len(body) - 1), len(body) - 1)
        if first >= len(body):
            return self.answer(416, b"", [*headers, ("Content-Range", f"bytes */{len(body)}")])
        headers.append(("Content-Range", f"bytes {first}-{last}/{len(body)}"))
        self.answer(206, body[first : last + 1], headers)

    def do_HEAD(self):
        self.do_GET()

    def do_POST(self):
        self.body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()


class _Hub(_Handler):
    host = "hub"

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        self.query = dict(urllib.parse.parse_qsl(url.query))
        parts = url.path[1:].split("/")  # still encoded: a revision may hold an encoded '/'
        kind = "models"
        if parts[0] == "api":
            kind, parts = parts[1], parts[2:]
        elif parts[0] + "/" in KINDS.values():
            kind, parts = parts[0], parts[1:]
        name, rest = "/".join(parts[:2]), parts[2:]
        repository = self.find(kind, name)
        if repository is None:
            return
        if not rest:
            rest = ["revision", "main"]
        revision = urllib.parse.unquote(rest[1])
        commit = repository.revisions.get(revision, revision)
        if commit not in repository.commits:
            return self.fail(404, "RevisionNotFound", f"Invalid rev id: {revision}")
        path = urllib.parse.unquote("/".join(rest[2:]))
        files = repository.commits[commit]
        if rest[0] == "revision":
            self.describe(name, commit, files)
        elif rest[0] == "tree":
            self.list(files, path, kind, name, rest)
        elif rest[0] == "paths-info":
            self.tell(files)
        elif rest[0] == "resolve":
            self.resolve(repository, files, path, commit)
        else:
            self.fail(404, None, "Not found")

    def find(self, kind, name):
        """The repository if the user may see it; else answers as the Hub does."""
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if token and token not in self.stub.tokens:
            return self.fail(401, None, "Invalid credentials in Authorization header")
        repository = self.stub.repositories.get((kind, name))
        allowed = self.stub.tokens.get(token, set())
        if repository is None or (repository.is_private and name not in allowed):
            # Without a token, the Hub does not say whether it exists.
            status = 404 if token else 401
            return self.fail(status, "RepoNotFound", "Repository not found")
        self.may_download = not repository.is_gated or name in allowed
        self.has_token = bool(token)
        self.repository_name = name
        return repository

    def describe(self, name, commit, files):
        siblings = [{"rfilename": path} for path in sorted(files)]
        self.send_json({"id": name, "modelId": name, "sha": commit, "siblings": siblings,
                        "private": False, "tags": [], "downloads": 0, "likes": 0})  # fmt: skip

    def send_json(self, value, headers=()):
        headers = [("Content-Type", "application/json"), *headers]
        self.answer(200, json.dumps(value).encode(), headers)

    @staticmethod
    def entry(path, body):
        found = {"type": "file", "path": path, "size": len(body), "oid": digest(body)}
        if len(body) >= LARGE:
            oid = hashlib.sha256(body).hexdigest()
            found["lfs"] = {"oid": oid, "size": len(body), "pointerSize": 134}
        return found

    def list(self, files, folder, kind, name, rest):
        prefix = folder + "/" if folder else ""
        entries = {}
        for path, body in files.items():
            if not path.startswith(prefix):
                continue
            below = path[len(prefix) :].split("/")
            for depth in range(1, len(below)):
                inner = prefix + "/".join(below[:depth])
                entries[inner] = {"type": "directory", "path": inner, "size": 0,
                                  "oid": digest(inner.encode())}  # fmt: skip
            entries[path] = self.entry(path, body)
        if self.query.get("recursive", "false").lower() != "true":
            entries = {
                path: entry for path, entry in entries.items() if "/" not in path[len(prefix) :]
            }
        if folder and not entries:
            return self.fail(404, "EntryNotFound", f"{folder} does not exist on the revision")
        first = int(self.query.get("cursor", 0))
        page = [entries[path] for path in sorted(entries)][first : first + PAGE]
        headers = []
        if first + PAGE < len(entries):
            query = urllib.parse.urlencode(self.query | {"cursor": first + PAGE})
            where = f"{self.stub.endpoint}/api/{kind}/{name}/{'/'.join(rest)}?{query}"
            headers.append(("Link", f'<{where}>; rel="next"'))
        self.send_json(page, headers)

    def tell(self, files):
        wanted = urllib.parse.parse_qs(self.body.decode()).get("paths", [])
        found = [self.entry(path, files[path]) for path in wanted if path in files]
        for path in wanted:
            if path not in files and any(name.startswith(path + "/") for name in files):
                found.append(
                    {"type": "directory", "path": path, "size": 0, "oid": digest(path.encode())}
                )
        self.send_json(found)

    def resolve(self, repository, files, path, commit):
        if not self.may_download:
            message = f"Access to {self.repository_name} is restricted."
            return self.fail(403 if self.has_token else 401, "GatedRepo", message)
        if path not in files:
            return self.fail(404, "EntryNotFound", "Entry not found")
        body = files[path]
        headers = [("X-Repo-Commit", commit)]
        if len(body) < LARGE:
            return self.send_bytes(body, [*headers, ("ETag", f'"{digest(body)}"')])
        oid = hashlib.sha256(body).hexdigest()
        self.stub.delivered[oid] = body
        headers += [("X-Linked-Size", str(len(body))), ("X-Linked-ETag", f'"{oid}"')]
        headers.append(("Location", self.stub.address_of(oid)))
        self.answer(302, b"Found. Redirecting", headers)


class _Cdn(_Handler):
    host = "cdn"

    def do_GET(self):
        url = urllib.parse.urlsplit(self.path)
        body = self.stub.delivered.get(url.path.rpartition("/")[2])
        signature = dict(urllib.parse.parse_qsl(url.query)).get("Signature")
        if body is None or signature != str(self.stub.signature):
            return self.answer(403, b"<Error><Code>AccessDenied</Code></Error>")
        self.send_bytes(body, [("ETag", f'"{digest(body)}"')])


class _Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class HubStub:
    """Two servers. `tokens`: a user's token -> the repositories that the user may read."""

    def __init__(self):
        self.repositories = {}  # (kind, name) -> Repository
        self.tokens = {}
        self.delivered = {}
        self.signature = 1  # addresses with an older one have expired
        self.seen = []
        self._lock = threading.Lock()
        self._servers = [self._start(handler) for handler in (_Hub, _Cdn)]
        # Two names of this machine, so that cookies and tokens of one do not belong to the other.
        self.endpoint = f"http://127.0.0.1:{self._servers[0].server_port}"
        self.cdn = f"http://localhost:{self._servers[1].server_port}"

    def _start(self, handler):
        server = _Server(("127.0.0.1", 0), type(handler.__name__, (handler,), {"stub": self}))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def add(self, name, files, kind="models", **options):
        made = self.repositories[kind, name] = Repository.of(files, **options)
        return made

    def address_of(self, oid):
        return f"{self.cdn}/repos/{oid}?Signature={self.signature}"

    def note(self, handler, sent):
        authorization = handler.headers.get("Authorization", "")
        with self._lock:
            self.seen.append(Seen(handler.host, handler.command, handler.path, authorization, sent))

    def forget(self):
        with self._lock:
            self.seen.clear()

    def of_host(self, host):
        with self._lock:
            return [seen for seen in self.seen if seen.host == host]

    @property
    def sent(self):
        with self._lock:
            return sum(seen.sent for seen in self.seen)
