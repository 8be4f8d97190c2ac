"""URLs on the command line: the options that say how to reach a store, and the commands that take local paths only."""

import contextlib
import http.server
import os
import queue
import subprocess
import threading

import pytest

from command import CAIRN, COMMANDS, FAILURE, USAGE, bad, good, run

READING = ["ls", "info", "tree", "du", "cat", "stats", "diff", "verify", "convert", "merge", "repair", "report", "reshard", "compact", "dump", "steps", "prune", "clean", "doctor"]
OPTIONS = ["--endpoint", "--region", "--profile", "--anonymous", "--ca-file", "--no-verify-tls"]
SECRET = "zRnYqKc0yM1bTnSecretSecret"
REFUSAL = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"

# command line with URL for the place -> what to do instead
LOCAL_ONLY = [
    (["convert", "a.safetensors", "x.npz", "--transform", "URL"], "local file"),
    (["bench", "URL"], "cairn verify"),
    (["ls", "s3://b/k", "--ca-file", "URL"], "local file"),
]


def environment(folder, **variables):
    """Without settings of the user's own, and without a question to a cloud's metadata server."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "GOOGLE_", "HF_"))}
    return kept | {"HOME": str(folder), "AWS_EC2_METADATA_DISABLED": "true"} | variables


def keys():
    return {"AWS_ACCESS_KEY_ID": "KEYOFTHEENVIRONMENT", "AWS_SECRET_ACCESS_KEY": SECRET}


class Refusing(http.server.BaseHTTPRequestHandler):
    """A store that refuses everything, and a proxy that opens no tunnel."""

    def do_GET(self):
        self.server.seen.put((self.path, self.headers))
        self.send_response(403)
        self.send_header("Content-Length", str(len(REFUSAL)))
        self.end_headers()
        with contextlib.suppress(ConnectionError):  # the command was killed
            self.wfile.write(REFUSAL)

    do_CONNECT = do_GET

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def server():
    """Gives an endpoint, and a queue with the target and the headers of each request."""
    made = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    made.seen = queue.Queue()
    thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{made.server_port}", made.seen
    finally:
        made.shutdown()
        thread.join()
        made.server_close()


def authorization(tmp_path, *options, **variables):
    """The signature of the requests of `cairn ls s3://bucket/run`, which the store refuses."""
    with server() as (endpoint, seen):
        done = run("ls", "s3://bucket/run", "--endpoint", endpoint, *options, env=environment(tmp_path, **variables))
    assert done.returncode == FAILURE and b"AccessDenied" in done.stderr, done
    assert SECRET.encode() not in done.stdout + done.stderr
    return seen.get_nowait()[1]["Authorization"]


@pytest.mark.parametrize("args, says", LOCAL_ONLY, ids=lambda v: " ".join(v[:1] + v[-1:]) if isinstance(v, list) else "")
@pytest.mark.parametrize("url", ["s3://bucket/run", "gs://bucket/run", "https://host/run"])
def test_local_only(folder, args, says, url, monkeypatch):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    args = [arg.replace("URL", url) for arg in args]
    message = bad(USAGE, *args)
    assert url in message and says in message and f"cairn {args[0]} " in message
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("args", [["convert", "a.safetensors", "URL", "--to", "npz"], ["reshard", "a.safetensors", "URL", "--chunk-bytes", "8"],
                                  ["cat", "a.safetensors", "odd", "--raw", "-o", "URL"], ["compact", "URL"]], ids=lambda args: args[0])
@pytest.mark.parametrize("url", ["https://host/run", "hf://owner/name/run"])
def test_what_can_only_be_read(folder, args, url, monkeypatch):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    message = bad(FAILURE, *(url if arg == "URL" else arg for arg in args))
    assert f"{url}: can only be read; Cairn writes to s3://, gs:// and local paths" in message
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_every_reading_command_has_the_options(command):
    text = good(command, "--help")
    assert [option for option in OPTIONS if f"  {option}" in text] == (OPTIONS if command in READING else [])
    assert "Prefer --ca-file" in " ".join(text.split()) or command not in READING


@pytest.mark.parametrize(
    "args, says",
    [
        (["--endpoint", "localhost:9000"], "http://localhost:9000"),
        (["--endpoint", "ftp://host"], "http://localhost:9000"),
        (["--endpoint", ""], "not a URL"),
        (["--region", ""], "--region"),
        (["--profile", ""], "--profile"),
        (["--ca-file", ""], "--ca-file"),
        (["--ca-file", "x", "--no-verify-tls"], "excludes"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_wrong_values(args, says):
    assert says in bad(USAGE, "ls", "s3://bucket/run", *args)


def test_an_endpoint_with_a_password_is_not_shown():
    message = bad(USAGE, "ls", "s3://bucket/run", "--endpoint", f"http://me:{SECRET}@host")
    assert SECRET not in message and "profile" in message


def test_local_checkpoints_ignore_the_options(folder):
    path = folder / "a.safetensors"
    assert good("ls", path, "--endpoint", "http://127.0.0.1:1", "--anonymous", "--region", "x") == good("ls", path)


def test_keys_and_region(tmp_path):
    assert "Credential=KEYOFTHEENVIRONMENT/" in authorization(tmp_path, **keys())
    assert "/mars-1/s3/" in authorization(tmp_path, "--region", "mars-1", AWS_REGION="us-west-2", **keys())


def test_anonymous_sends_no_keys(tmp_path):
    assert authorization(tmp_path, "--anonymous", **keys()) is None


def test_a_profile_comes_before_the_environment(tmp_path):
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws/credentials").write_text(f"[dev]\naws_access_key_id = KEYOFDEV\naws_secret_access_key = {SECRET}\n")
    assert "Credential=KEYOFDEV/" in authorization(tmp_path, "--profile", "dev", **keys())
    assert "KEYOFTHEENVIRONMENT" in authorization(tmp_path, **keys())
    done = run("ls", "s3://bucket/run", "--profile", "prod", env=environment(tmp_path))
    assert done.returncode == FAILURE and b"no profile prod" in done.stderr


def test_the_endpoint_comes_before_the_environment(tmp_path):
    with server() as (endpoint, seen):
        authorization(tmp_path, AWS_ENDPOINT_URL=endpoint, AWS_ENDPOINT_URL_S3=endpoint, **keys())
        assert seen.empty()


def test_the_endpoint_of_google_s_store(tmp_path):
    with server() as (endpoint, seen), server() as (other, unused):
        done = run("ls", "gs://bucket/run", "--endpoint", endpoint, env=environment(tmp_path, STORAGE_EMULATOR_HOST=other))
    assert done.returncode == FAILURE and unused.empty() and not seen.empty()


def test_a_proxy_is_asked_but_not_for_its_exceptions(tmp_path):
    with server() as (proxy, asked), server() as (endpoint, seen):
        variables = environment(tmp_path, http_proxy=proxy, no_proxy="127.0.0.1")
        run("ls", "s3://bucket/run", "--anonymous", "--endpoint", "http://store.invalid", env=variables)
        assert asked.get_nowait()[0].startswith("http://store.invalid/bucket?")
        run("ls", "s3://bucket/run", "--anonymous", "--endpoint", endpoint, env=variables)
        assert not seen.empty() and asked.empty()


def first_tunnel(tmp_path, *args):
    """The host and port to which a command wants a tunnel, seen by a proxy. The command would go on for two minutes."""
    with server() as (proxy, asked):
        variables = environment(tmp_path, https_proxy=proxy)
        command = [CAIRN, "ls", *args, "--anonymous"]
        with subprocess.Popen(command, env=variables, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
            try:
                return asked.get(timeout=30)[0]
            finally:
                process.kill()


@pytest.mark.parametrize(
    "args, host",
    [
        (["s3://bucket/run"], "bucket.s3.us-east-1.amazonaws.com"),
        (["s3://bucket/run", "--region", "eu-west-1"], "bucket.s3.eu-west-1.amazonaws.com"),
        (["s3://bucket/run", "--region", "cn-north-1"], "bucket.s3.cn-north-1.amazonaws.com.cn"),
        (["s3://a.bucket/run"], "s3.us-east-1.amazonaws.com"),
        (["s3://bucket/run", "--endpoint", "https://store.example"], "store.example"),
        (["gs://bucket/run"], "storage.googleapis.com"),
        (["hf://owner/name/run"], "huggingface.co"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_hosts(tmp_path, args, host):
    assert first_tunnel(tmp_path, *args) == f"{host}:443"
