"""The fault proxy makes the faults that it names, and otherwise changes nothing."""

import concurrent.futures
import http.client
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request

import botocore.exceptions
import fault_proxy
import pytest
import store_clients
from fault_proxy import Fault

BODY = bytes(range(256)) * 400


@pytest.fixture
def store(seaweedfs):
    seaweedfs.put("object", BODY)
    return seaweedfs


def client(store, proxy):
    return store_clients.client(proxy.endpoint, store.region, store.admin)


def get(store, proxy, **options):
    key = f"{store.prefix}/object"
    return client(store, proxy).get_object(Bucket=store.bucket, Key=key, **options)["Body"].read()


def error_of(call):
    with pytest.raises(
        (
            botocore.exceptions.BotoCoreError,
            botocore.exceptions.ClientError,
            botocore.exceptions.ResponseStreamingError,
        )
    ) as caught:
        call()
    return caught.value


def test_without_a_fault_all_passes(store, proxy):
    through = proxy(store)
    s3 = client(store, through)
    where = {"Bucket": store.bucket, "Key": f"{store.prefix}/other name +%é"}
    s3.put_object(**where, Body=BODY)
    assert s3.head_object(**where)["ContentLength"] == len(BODY)
    assert s3.get_object(**where, Range="bytes=3-9")["Body"].read() == BODY[3:10]
    s3.delete_object(**where)
    listed = s3.list_objects_v2(Bucket=store.bucket, Prefix=store.prefix)
    assert [item["Key"] for item in listed["Contents"]] == [f"{store.prefix}/object"]
    assert [(one.method, one.status) for one in through.log] == [
        ("PUT", 200),
        ("HEAD", 200),
        ("GET", 206),
        ("DELETE", 204),
        ("GET", 200),
    ]
    assert through.log[2].range == "bytes=3-9"
    assert through.log[2].key == f"/{store.bucket}/{where['Key']}"
    assert f"prefix={store.prefix}" in through.log[4].key and "Signature" not in through.log[4].key
    assert through.rounds == 5


@pytest.mark.parametrize(
    "kind, code",
    [
        ("503", "SlowDown"),
        ("429", "TooManyRequests"),
        ("500", "InternalError"),
        ("expired", "ExpiredToken"),
        ("unauthorized", "401"),
    ],
)
def test_answers_of_its_own(store, proxy, kind, code):
    through = proxy(store, [Fault(kind, nth=2, retry_after="7")])
    assert get(store, through) == BODY
    failed = error_of(lambda: get(store, through)).response
    assert failed["Error"]["Code"] == code
    assert failed["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "7"
    assert get(store, through) == BODY
    assert [one.fault for one in through.log] == ["", kind, ""]


def test_an_error_in_a_200(store, proxy):
    with_error = proxy(store, [Fault("error200", every=1)])
    answer = get(store, with_error)
    assert b"<Code>InternalError</Code>" in answer


@pytest.mark.parametrize("kind", ["drop", "lost", "reset", "cut"])
def test_broken_connections(store, proxy, kind):
    through = proxy(store, [Fault(kind, nth=1, match="^GET")])
    error_of(lambda: get(store, through))
    assert get(store, through) == BODY


@pytest.mark.parametrize("kind, stored", [("drop", False), ("lost", True)])
def test_the_store_sees_a_lost_request_only(store, proxy, kind, stored):
    through = proxy(store, [Fault(kind, nth=1, match="^PUT")])
    where = {"Bucket": store.bucket, "Key": f"{store.prefix}/written"}
    error_of(lambda: client(store, through).put_object(**where, Body=b"x"))
    assert ("written" in store.list()) == stored


def test_another_range_is_named(store, proxy):
    through = proxy(store, [Fault("range", every=1)])
    key = f"{store.prefix}/object"
    found = client(store, through).get_object(Bucket=store.bucket, Key=key, Range="bytes=5-8")
    assert found["ContentRange"] == f"bytes 6-8/{len(BODY)}"


def test_a_stall_ends_with_the_time_that_it_was_given(store, proxy):
    through = proxy(store, [Fault("stall", every=1, stall_seconds=0.3)])
    begin = time.monotonic()
    error_of(lambda: get(store, through))
    assert time.monotonic() - begin >= 0.3


def test_limits_and_matches(store, proxy):
    through = proxy(store, [Fault("503", every=2, match="^GET", limit=1)])
    client(store, through).head_object(Bucket=store.bucket, Key=f"{store.prefix}/object")
    kinds = []
    for _ in range(4):
        try:
            kinds.append(get(store, through) == BODY)
        except botocore.exceptions.ClientError:
            kinds.append(False)
    assert kinds == [True, False, True, True]


def test_delay(store, proxy):
    through = proxy(store, delay=0.2)
    begin = time.monotonic()
    assert get(store, through) == BODY
    assert time.monotonic() - begin >= 0.2


def test_requests_that_overlap_are_of_one_round(store, proxy):
    through = proxy(store)
    with fault_proxy.socket.create_connection(("127.0.0.1", through.port)) as slow:
        slow.sendall(b"PUT /never HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n")
        while not through.log:  # until the proxy has read this much
            time.sleep(0.01)
        get(store, through)
        slow.sendall(b"12345")
        assert slow.recv(1)
    get(store, through)
    assert [request.round for request in through.log] == [1, 1, 2]
    assert through.peak_connections >= 2
    first, second, third = through.log
    assert first.began < second.began < second.ended < first.ended < third.began


def test_bandwidth(store, proxy):
    through = proxy(store, bandwidth=len(BODY) / 0.3)
    begin = time.monotonic()
    assert get(store, through) == BODY
    assert time.monotonic() - begin >= 0.25


def test_as_a_program(store):
    with fault_proxy.socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [
        sys.executable,
        fault_proxy.__file__,
        str(port),
        str(store.port),
        "--fault",
        "503:every=1,retry_after=1",
    ]
    process = subprocess.Popen(command)
    try:
        answers = wait_for_answer(port)
        assert answers["requests"] == 0 and answers["faults"][0]["kind"] == "503"
    finally:
        process.terminate()
        process.wait()


def wait_for_answer(port):
    for _ in range(100):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/__stats") as reply:
                return json.load(reply)
        except urllib.error.URLError:
            time.sleep(0.1)
    raise AssertionError("the proxy does not answer")


class GcsCalls:
    """Raw requests to the emulator."""

    def __init__(self, store):
        self.store = store
        self.objects = f"/storage/v1/b/{store.bucket}/o"

    def send(self, method, target, body=b"", headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.store.port, timeout=20)
        connection.request(method, target, body, dict(headers))
        reply = connection.getresponse()
        content = reply.read()
        connection.close()
        return reply, content

    def status(self, *request):
        return self.send(*request)[0].status

    def upload(self, name, query="", body=b"0123456789", headers=()):
        where = f"/upload{self.objects}?uploadType=media&name={self.store.prefix}/{name}{query}"
        return self.send("POST", where, body, headers)

    def path(self, name):
        return f"{self.objects}/{self.store.prefix}%2F{name}"

    def generation(self, name):
        return json.loads(self.send("GET", self.path(name))[1])["generation"]


def test_strict_preconditions(gcs):
    calls = GcsCalls(gcs)
    assert calls.upload("a", "&ifGenerationMatch=0")[0].status == 200
    assert calls.upload("a", "&ifGenerationMatch=0")[0].status == 412
    now = calls.generation("a")
    assert calls.upload("a", f"&ifGenerationMatch={now}", b"new")[0].status == 200
    assert calls.upload("a", f"&ifGenerationMatch={now}", b"stale")[0].status == 412
    now, path = calls.generation("a"), calls.path("a")
    assert calls.status("GET", f"{path}?alt=media&ifGenerationNotMatch={now}") == 304
    assert calls.status("GET", f"{path}?alt=media&ifGenerationMatch=5") == 412
    assert calls.send("GET", f"{path}?alt=media&ifGenerationMatch={now}")[1] == b"new"
    copy = f"{path}/rewriteTo/b/{gcs.bucket}/o/{gcs.prefix}%2Fb"
    assert calls.status("POST", f"{copy}?ifSourceGenerationMatch=5") == 412
    assert calls.status("POST", f"{copy}?ifGenerationMatch=0") == 200
    assert calls.status("POST", f"{copy}?ifGenerationMatch=0") == 412
    assert calls.status("DELETE", f"{path}?ifGenerationMatch=5") == 412
    assert calls.status("DELETE", f"{path}?ifGenerationMatch={now}") in (200, 204)


def test_strict_checksums(gcs):
    calls = GcsCalls(gcs)
    assert calls.upload("a", headers=[("x-goog-hash", "crc32c=AAAAAA==")])[0].status == 400
    right = [("x-goog-hash", "crc32c=KAwGng==")]
    assert calls.upload("a", headers=right)[0].status == 200


def test_strict_racing_creators_have_one_winner(gcs):
    calls = GcsCalls(gcs)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for race in range(5):
            statuses = pool.map(
                lambda _, name=f"race{race}": calls.upload(name, "&ifGenerationMatch=0")[0].status,
                range(8),
            )
            assert sorted(statuses) == [200] + [412] * 7


def begin_upload(calls, name, query):
    where = f"/upload{calls.objects}?uploadType=resumable&name={calls.store.prefix}/{name}{query}"
    reply, _ = calls.send("POST", where, b"{}", [("Content-Type", "application/json")])
    return reply.status, (reply.headers.get("Location") or "").removeprefix(calls.store.endpoint)


def test_strict_resumable_uploads(gcs):
    calls, part = GcsCalls(gcs), bytes(256 << 10)
    assert begin_upload(calls, "big", "&ifGenerationMatch=5")[0] == 412
    status, session = begin_upload(calls, "big", "&ifGenerationMatch=0")
    assert status == 200
    size = len(part) + 5
    ask = ("PUT", session, b"", [("Content-Range", f"bytes */{size}")])
    assert calls.send(*ask)[0].headers.get("Range") is None
    first = [("Content-Range", f"bytes 0-{len(part) - 1}/*")]
    assert calls.status("PUT", session, part, first) == 308
    reply, _ = calls.send(*ask)  # the emulator alone would end the upload here
    assert (reply.status, reply.headers["Range"]) == (308, f"bytes=0-{len(part) - 1}")
    last = [("Content-Range", f"bytes {len(part)}-{size - 1}/{size}")]
    done, text = calls.send("PUT", session, b"tail!", last)
    assert done.status == 200 and json.loads(text)["size"] == str(size)
    assert calls.send(*ask)[0].status == 200
    assert calls.send("GET", calls.path("big") + "?alt=media")[1] == part + b"tail!"


def test_strict_resumable_upload_that_another_writer_overtakes(gcs):
    calls = GcsCalls(gcs)
    _, session = begin_upload(calls, "big", "&ifGenerationMatch=0")
    assert calls.upload("big")[0].status == 200
    assert calls.status("PUT", session, b"late", [("Content-Range", "bytes 0-3/4")]) == 412
    assert calls.send("GET", calls.path("big") + "?alt=media")[1] == b"0123456789"
