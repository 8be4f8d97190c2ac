"""Servers that mean harm: endless answers, bombs, loops. The command ends soon, in bounded memory,
and says what is wrong."""

import contextlib
import gzip
import itertools
import json
import os
import pathlib
import re
import subprocess
import tempfile
import time

import cairn_cli
import hostile_stub
import numpy as np
import pytest
import store_clients
from hostile_stub import answer

import cairn

MOST_MEMORY = 300 << 20  # bytes of the process
SOON = 40  # seconds, on a machine that is busy
LISTED = 10_000_000 if store_clients.LONG else 200_000
PAGE = 1000
FOREVER = b"x" * (1 << 16)


def account(address):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {
        **kept,
        "AWS_ENDPOINT_URL": f"http://{address}",
        "AWS_REGION": "us-east-1",
        "STORAGE_EMULATOR_HOST": f"http://{address}",
    }


def run(address, *arguments, seconds=SOON, memory=MOST_MEMORY):
    """(exit status, stdout, stderr) of the command, which ends in time and with this memory."""
    command = [cairn_cli.CAIRN, *map(str, arguments)]
    if not arguments[-1].startswith("http"):
        command.append("--anonymous")
    end, peak = time.monotonic() + seconds, 0
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as error:
        process = subprocess.Popen(command, env=account(address), stdout=out, stderr=error)
        while process.poll() is None:
            peak = max(peak, resident(process.pid))
            if time.monotonic() > end:
                process.kill()
                process.wait()
                pytest.fail(f"{command} does not end")
            time.sleep(0.01)
        assert peak <= memory, f"{command} takes {peak >> 20} MiB"
        out.seek(0)
        error.seek(0)
        return process.returncode, out.read().decode(), error.read().decode()


def resident(pid):
    """The most bytes that a process has had in memory."""
    with contextlib.suppress(OSError):
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
        found = re.search(r"VmHWM:\s+(\d+) kB", status)
        return int(found[1]) << 10 if found else 0
    return 0


def refused(respond, *arguments, says, **limits):
    """The command fails with an error that says this."""
    with hostile_stub.serving(respond) as address:
        places = [str(word).replace("ADDRESS", address) for word in arguments]
        status, _, error = run(address, *places, **limits)
    assert status == cairn_cli.IO, (status, error)
    assert re.search(says, error), error


# ---- listings of S3 ----


def contents(keys):
    return "".join(
        f"<Contents><Key>{key}</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>"
        f"<ETag>&quot;0123456789abcdef0123456789abcdef&quot;</ETag><Size>10</Size></Contents>"
        for key in keys
    )


def page(keys=(), folders=(), token=""):
    more = f"<NextContinuationToken>{token}</NextContinuationToken>" if token else ""
    folders = "".join(f"<CommonPrefixes><Prefix>{one}</Prefix></CommonPrefixes>" for one in folders)
    text = (
        f"<?xml version='1.0'?><ListBucketResult><IsTruncated>{str(bool(token)).lower()}"
        f"</IsTruncated>{more}{contents(keys)}{folders}</ListBucketResult>"
    )
    return answer("200 OK", text.encode(), Content_Type="application/xml")


BOMB = "".join(f"<!ENTITY e{n} '{f'&e{n - 1};' * 10}'>" for n in range(1, 30))
XML = {
    "entities": f"<!DOCTYPE r [<!ENTITY e0 'xxxxxxxxxx'>{BOMB}]><ListBucketResult><Contents><Key>"
    "&e29;</Key></Contents></ListBucketResult>",
    "external entities": "<!DOCTYPE r [<!ENTITY e SYSTEM 'file:///etc/passwd'>]>"
    "<ListBucketResult><Contents><Key>run/&e;</Key></Contents></ListBucketResult>",
    "deep": "<ListBucketResult>" + "<a>" * 1_000_000,
    "attributes": "<ListBucketResult " + " ".join(f"a{n}='x'" for n in range(500_000)) + "/>",
    "one long tag": "<" + "a" * 5_000_000,
    "nothing": "",
    "html": "<html><body>Welcome</body></html>",
}


@pytest.mark.parametrize("name", XML)
@pytest.mark.parametrize("command", ["ls", "steps"])
def test_bombs_of_xml(name, command):
    body = answer("200 OK", XML[name].encode(), Content_Type="application/xml")
    refused(lambda request: [body], command, "s3://bucket/run", says="s3://bucket/")


def test_a_listing_without_end():
    """Each page names another one, and brings nothing."""
    tokens = itertools.count(1)
    refused(
        lambda request: [page(token=f"t{next(tokens)}")], "ls", "s3://bucket/run", says="listing"
    )


def test_a_listing_that_goes_round():
    turns = itertools.cycle("abc")
    refused(
        lambda request: [page(["elsewhere/1"], token=next(turns))],
        "ls",
        "s3://bucket/run",
        says="listing",
    )


def test_pages_of_google_without_end():
    tokens = itertools.count(1)

    def respond(request):
        body = {"kind": "storage#objects", "items": [], "nextPageToken": f"t{next(tokens)}"}
        return [answer("200 OK", json.dumps(body).encode())]

    refused(respond, "ls", "gs://bucket/run", says="listing|pages")


@pytest.mark.parametrize(
    "text", ["[" * 1_000_000, '{"items": ' * 100_000, '{"items": [' + "1," * 9]
)
def test_bombs_of_json(text):
    body = answer("200 OK", text.encode(), Content_Type="application/json")
    refused(lambda request: [body], "ls", "gs://bucket/run", says="gs://bucket/")


def listing_of(count, below):
    """Answers listings of this many objects below a prefix, and of nothing else."""

    def respond(request):
        if "list-type" not in request.query:
            return [answer("404 Not Found", b"<Error><Code>NoSuchKey</Code></Error>")]
        prefix, delimiter = request.query.get("prefix", ""), request.query.get("delimiter", "")
        if delimiter and below.startswith(prefix) and below != prefix:
            return [page(folders=[below[: below.index("/", len(prefix)) + 1]])]
        if not below.startswith(prefix):
            return [page()]
        begin = int(request.query.get("continuation-token", 0))
        keys = [f"{below}{number:032x}" for number in range(begin, min(begin + PAGE, count))]
        following = begin + PAGE
        return [page(keys, token=str(following) if following < count else "")]

    return respond


@pytest.mark.parametrize("command", ["ls", "steps"])
def test_a_run_with_very_many_objects(command):
    """10 million with CAIRN_LONG. A step of which only the data is large is listed in part."""
    seconds = SOON + LISTED / 20_000
    with hostile_stub.serving(listing_of(LISTED, "run/1/default/d/")) as address:
        memory = MOST_MEMORY + LISTED * 200
        status, _, error = run(address, command, "s3://bucket/run", seconds=seconds, memory=memory)
    assert status in (cairn_cli.GOOD, cairn_cli.IO)
    assert "bad_alloc" not in error and (status == cairn_cli.GOOD or "s3://bucket/run" in error)


def test_keys_that_are_no_names():
    keys = [
        "run/../../etc/passwd",
        "run//x",
        "/run/x",
        "run/./y",
        "run/a&#10;b",
        "run/" + "k" * 5000,
    ]
    refused(lambda request: [page(keys)], "ls", "s3://bucket/run", says="s3://bucket/run")


# ---- bodies ----


def head(status, **headers):
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode()


def endless(first):
    return itertools.chain([first], itertools.repeat(FOREVER))


def chunks_without_end():
    chunk = f"{len(FOREVER):x}\r\n".encode() + FOREVER + b"\r\n"
    return itertools.chain([head("200 OK", Transfer_Encoding="chunked")], itertools.repeat(chunk))


ENDLESS = {
    "body": lambda: endless(head("200 OK")),
    "chunks": chunks_without_end,
    "header": lambda: endless(b"HTTP/1.1 200 OK\r\nX: "),
    "headers": lambda: itertools.chain(
        [b"HTTP/1.1 200 OK\r\n"], itertools.repeat(b"X: y\r\n" * 99)
    ),
    "status line": lambda: endless(b"HTTP/1.1 200 "),
    "continue": lambda: itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n" * 99),
    "error page": lambda: endless(head("403 Forbidden")),
}


URLS = ["s3://bucket/run", "gs://bucket/run", "http://ADDRESS/m.npz", "http://ADDRESS/run"]
# Nothing has been answered when these are given up, which takes 15 s.
SLOW = ["header", "status line"]


@pytest.mark.parametrize("name", [name for name in ENDLESS if name not in SLOW])
@pytest.mark.parametrize("url", URLS)
def test_answers_without_end(name, url):
    refused(lambda request: ENDLESS[name](), "ls", url, says="://")


@pytest.mark.parametrize("name", SLOW)
def test_heads_without_end(name):
    refused(lambda request: ENDLESS[name](), "ls", URLS[0], says="s3://")


def test_redirects_that_go_round():
    def respond(request):
        return [answer("302 Found", Location=f"/m{len(request.path)}.npz")]

    refused(respond, "ls", "http://ADDRESS/m.npz", says="redirect")


@pytest.mark.parametrize("status", ["301 Moved Permanently", "307 Temporary Redirect"])
def test_regions_that_go_round(status):
    """A store that always names another region is asked a few times."""
    seen = []

    def respond(request):
        seen.append(request)
        region = f"eu-west-{len(seen)}"
        body = f"<Error><Code>PermanentRedirect</Code><Region>{region}</Region></Error>".encode()
        return [answer(status, body, x_amz_bucket_region=region, Location="/again")]

    refused(respond, "ls", "s3://bucket/run", says="s3://bucket")
    assert len(seen) <= 10


def served_file(body, **changes):
    """Answers requests of one file, with other headers or bytes than it should."""

    def respond(request):
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", request.headers.get("range", ""))
        first = int(wanted[1]) if wanted else 0
        last = min(int(wanted[2] or len(body) - 1), len(body) - 1) if wanted else len(body) - 1
        part = body[first : last + 1]
        headers = {"ETag": '"v1"', "Accept-Ranges": "bytes"}
        if wanted:
            headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
        made = changes.get("make", lambda part, headers: (part, headers))
        part, headers = made(part, headers)
        status = "206 Partial Content" if wanted else "200 OK"
        reply = answer(status, part, **{n.replace("-", "_"): v for n, v in headers.items()})
        return [reply if request.method == "GET" else reply[: len(reply) - len(part)]]

    return respond


LIES = {
    "compressed": lambda part, headers: (
        gzip.compress(part),
        {**headers, "Content-Encoding": "gzip"},
    ),
    "negative range": lambda part, headers: (part, {**headers, "Content-Range": "bytes -5-9/10"}),
    "huge range": lambda part, headers: (
        part,
        {**headers, "Content-Range": f"bytes 0-{2**64}/{2**65}"},
    ),
    "huge total": lambda part, headers: (
        part,
        {**headers, "Content-Range": f"bytes 0-{len(part) - 1}/{2**62}"},
    ),
    "no range": lambda part, headers: (
        part,
        {name: value for name, value in headers.items() if name != "Content-Range"},
    ),
    "too long": lambda part, headers: (part + b"more", headers),
    "too short": lambda part, headers: (part[:-1], headers),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_file_whose_answers_lie(lie, tmp_path):
    """The right bytes, or an error."""
    values = np.arange(200_000, dtype=np.float32)
    np.savez(tmp_path / "m.npz", w=values)
    body = (tmp_path / "m.npz").read_bytes()
    with hostile_stub.serving(served_file(body, make=LIES[lie])) as address:
        status, _, error = run(address, "stats", "--json", f"http://{address}/m.npz")
        assert status in (cairn_cli.GOOD, cairn_cli.IO), error
        assert status == cairn_cli.GOOD or f"http://{address}/m.npz" in error
        try:
            found = cairn.load(f"http://{address}/m.npz", storage_options={"retry_time": 1})
        except (OSError, ValueError, NotImplementedError):
            return
        np.testing.assert_array_equal(found["w"], values)


def test_bytes_that_drip(tmp_path):
    """A byte now and then is not progress."""

    def respond(request):
        yield head("200 OK", Content_Length=1 << 20, ETag='"v1"')
        for _ in range(1000):
            yield b"x"
            time.sleep(0.2)

    limits = {"stall_timeout": 1, "retry_time": 3}
    with hostile_stub.serving(respond) as address:
        begin = time.monotonic()
        with pytest.raises(OSError, match="http://"):
            cairn.load(f"http://{address}/m.npz", storage_options=limits)
        assert time.monotonic() - begin < SOON
