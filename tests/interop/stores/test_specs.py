"""Specs with the drivers gcs, s3 and http mean the same to Cairn and to the real TensorStore."""

import contextlib
import http.server
import json
import os
import pathlib
import re
import subprocess
import sys
import threading

import cairn_cli
import leaves
import numpy as np
import pytest
import random_trees
import store_clients
import tensorstore as ts
import tensorstore_arrays
import tensorstore_steps

CASES = 40 if store_clients.LONG else 10  # arrays of each kind and server
KINDS = ["zarr", "zarr3", "ocdbt"]


@pytest.fixture
def rng():
    return np.random.default_rng(int(os.environ["CAIRN_SEED"]))


def pick(rng, items):
    return items[int(rng.integers(len(items)))]


def ours(jobs, store):
    found = cairn_cli.answers("spec_tool", jobs, env=store.variables())
    for job, answer in zip(jobs, found, strict=True):
        assert not (isinstance(answer, dict) and "error" in answer), (job, answer)
    return found


def theirs(program, jobs, variables, *arguments):
    done = subprocess.run(
        [sys.executable, program.__file__, *arguments],
        input=json.dumps(jobs).encode(),
        capture_output=True,
        env=variables,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr.decode()
    return json.loads(done.stdout)


def random_array(rng):
    dtype = pick(rng, random_trees.DTYPES)
    shape = [int(n) for n in rng.integers(1, 9, int(rng.integers(0, 4)))]
    # 0 and 1 are values of every type.
    return rng.integers(0, 2, shape).astype(dtype)


def random_spec(rng, kind, folder, array):
    """An array below a folder: {"driver": ...} with its path."""
    chunks = [int(n) for n in rng.integers(1, 7, array.ndim)]
    metadata = {"shape": list(array.shape)}
    driver = pick(rng, ["zarr", "zarr3"]) if kind == "ocdbt" else kind
    if driver == "zarr":
        metadata |= {
            "chunks": chunks,
            "compressor": pick(rng, [None, {"id": "zstd"}, {"id": "zlib"}]),
        }
    else:
        metadata["chunk_grid"] = {"name": "regular", "configuration": {"chunk_shape": chunks}}
    spec = {"driver": driver, "dtype": array.dtype.name, "metadata": metadata}
    if kind == "ocdbt":
        return {**spec, "kvstore": {"driver": "ocdbt", "base": folder, "path": "a/w"}}
    if rng.random() < 0.3:
        return {**spec, "kvstore": folder, "path": "below"}
    return {**spec, "kvstore": folder}


def whole(array):
    return {"origin": [0] * array.ndim, "shape": list(array.shape)}


def folder_of(rng, store, name):
    """Its spec as TensorStore's users write it."""
    spec = store.tensorstore(pick(rng, [name, f"{name}/"]))
    if store.name != "GCS" and rng.random() < 0.5:
        spec["context"] = {"aws_credentials": spec.pop("aws_credentials")}
    return spec


# ---- both ways ----
@pytest.mark.covers("stores.open")
@pytest.mark.parametrize("kind", KINDS)
def test_we_read_what_they_wrote(store, rng, scratch, kind):
    if kind == "ocdbt" and store.name == "RADOSGW":
        pytest.skip("TensorStore cannot replace a manifest in radosgw 16")
    arrays = [random_array(rng) for _ in range(CASES)]
    jobs = []
    for i, array in enumerate(arrays):
        (scratch / f"{i}.in").write_bytes(leaves.raw_bytes(array))
        spec = random_spec(rng, kind, folder_of(rng, store, f"é {i}"), array)
        jobs.append({"spec": spec, "write": str(scratch / f"{i}.in")})
    written = theirs(tensorstore_arrays, jobs, store.variables())
    # Half of them by the spec that TensorStore made of it, with all its resources.
    specs = [pick(rng, [job["spec"], full]) for job, full in zip(jobs, written, strict=True)]
    reads = []
    for i, (array, spec) in enumerate(zip(arrays, specs, strict=True)):
        step = {"read": str(scratch / f"{i}.out"), **whole(array)}
        reads.append({"array": {"spec": spec, "steps": [step]}})
    for i, (array, got) in enumerate(zip(arrays, ours(reads, store), strict=True)):
        assert (got["dtype"], got["shape"]) == (array.dtype.name, list(array.shape))
        assert (scratch / f"{i}.out").read_bytes() == leaves.raw_bytes(array), reads[i]


@pytest.mark.covers("stores.open")
@pytest.mark.parametrize("kind", KINDS)
def test_they_read_what_we_wrote(store, rng, scratch, kind):
    arrays = [random_array(rng) for _ in range(CASES)]
    jobs, reads = [], []
    for i, array in enumerate(arrays):
        (scratch / f"{i}.in").write_bytes(leaves.raw_bytes(array))
        spec = random_spec(rng, kind, folder_of(rng, store, f"é {i}"), array)
        step = {"write": str(scratch / f"{i}.in"), **whole(array)}
        jobs.append({"array": {"spec": spec, "create": True, "steps": [step]}})
        reads.append({"spec": spec, "read": str(scratch / f"{i}.out")})
    ours(jobs, store)
    theirs(tensorstore_arrays, reads, store.variables())
    for i, array in enumerate(arrays):
        assert (scratch / f"{i}.out").read_bytes() == leaves.raw_bytes(array), reads[i]


def test_arrays_are_replaced_and_nothing_else(store, rng, scratch):
    array = random_array(rng)
    (scratch / "in").write_bytes(leaves.raw_bytes(array))
    steps = [{"write": str(scratch / "in"), **whole(array)}]
    spec = random_spec(rng, "zarr", store.tensorstore("a/w"), array)
    made = {"array": {"spec": {**spec, "path": ""}, "create": True, "steps": steps}}
    beside = random_spec(rng, "zarr3", store.tensorstore("a/w2"), array)
    ours([made, {"array": {"spec": {**beside, "path": ""}, "create": True}}], store)
    again = {"array": {**made["array"], "open": False, "delete_existing": True, "steps": []}}
    ours([again], store)
    keys = theirs(
        tensorstore_steps, [{"list": ""}], store.variables(), json.dumps(store.tensorstore())
    )
    assert keys == [["a/w/.zarray", "a/w2/zarr.json"]]


def test_json_values_and_keys(store):
    value = {"driver": "json", "kvstore": store.tensorstore("x.json"), "json_pointer": "/a"}
    assert ours([{"json": {"spec": value, "write": [1, "é"]}}], store) == [[1, "é"]]
    spec = store.tensorstore("keys/p")
    steps = [{"write": ["1", "one"]}, {"write": ["2/3", "two"]}, {"remove": "1"}, {"list": ""}]
    assert ours([{"kv": {"spec": spec, "steps": steps}}], store) == [[[["2/3", "two"]]]]
    found = theirs(
        tensorstore_steps,
        [{"read": "keys/p2/3"}, {"read": "x.json"}, {"list": ""}],
        store.variables(),
        json.dumps(store.tensorstore()),
    )
    assert found == ["two", '{"a":[1,"é"]}', ["keys/p2/3", "x.json"]]


def test_urls(store):
    """TensorStore knows no endpoint beside a URL of S3; Cairn takes that of the environment."""
    write = [{"write": ["k é", "v"]}, {"list": ""}]
    url = f"{store.url}/b%20c/"
    assert ours([{"kv": {"spec": url, "steps": write}}], store) == [[[["k é", "v"]]]]
    read = [{"read": "b c/k é"}]
    spec = json.dumps(store.tensorstore())
    assert theirs(tensorstore_steps, read, store.variables(), spec) == ["v"]


def test_keys_are_those_that_the_spec_names(s3):
    spec = s3.tensorstore("k")
    environment = {"kv": {"spec": spec, "steps": [{"write": ["1", "one"]}]}}
    assert ours([environment], s3) == [[]]
    anonymous = {**spec, "aws_credentials": {"type": "anonymous"}}
    profile = {**spec, "aws_credentials": {"type": "profile", "profile": "nobody"}}
    jobs = [{"kv": {"spec": each, "steps": [{"list": ""}]}} for each in (anonymous, profile)]
    found = cairn_cli.answers("spec_tool", jobs, env=s3.variables())
    assert "AccessDenied" in found[0]["error"] and "nobody" in found[1]["error"], found


# ---- http ----
class Files(http.server.SimpleHTTPRequestHandler):
    """Files and ranges of them, for who sends the header."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        path = self.translate_path(self.path)
        if self.headers["X-Key"] != "secret":
            return self.answer(403, b"")
        if not os.path.isfile(path):
            return self.answer(404, b"")
        body = pathlib.Path(path).read_bytes()
        asked = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers["Range"] or "")
        if not asked:
            return self.answer(200, body)
        first, last = int(asked[1] or 0), min(int(asked[2] or len(body)), len(body) - 1)
        if not asked[1]:  # the last bytes
            first, last = max(0, len(body) - int(asked[2])), len(body) - 1
        if first > last:
            return self.answer(416, b"", f"bytes */{len(body)}")
        self.answer(206, body[first : last + 1], f"bytes {first}-{last}/{len(body)}")

    def answer(self, status, body, content_range=None):
        self.send_response(status)
        self.send_header("ETag", '"1"')
        self.send_header("Content-Length", str(len(body)))
        if content_range:
            self.send_header("Content-Range", content_range)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def web_server(folder):
    def handler(*arguments):
        return Files(*arguments, directory=str(folder))

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.mark.covers("stores.open")
@pytest.mark.parametrize("kind", KINDS)
def test_both_read_web_servers(rng, scratch, kind):
    jobs, arrays = [], []
    with web_server(scratch) as url:
        for i in range(CASES):
            array = random_array(rng)
            at = {"driver": "file", "path": f"{scratch}/ü {i}/"}
            spec = random_spec(rng, kind, at, array)
            ts.open({**spec, "create": True}).result().write(array).result()
            web = {
                **pick(
                    rng,
                    [
                        {"base_url": f"{url}/%C3%BC%20{i}/"},
                        {"base_url": f"{url}/%C3%BC%20{i}"},
                        {"base_url": url, "path": f"/ü {i}/"},
                        {"base_url": url, "path": f"ü {i}"},
                    ],
                ),
                "driver": "http",
                "headers": ["X-Key: secret"],
            }
            place = "base" if kind == "ocdbt" else "kvstore"
            holder = spec["kvstore"] if kind == "ocdbt" else spec
            holder[place] = web
            read = ts.open(spec).result().read().result()
            assert leaves.raw_bytes(read) == leaves.raw_bytes(array)
            step = {"read": str(scratch / f"{i}.out"), **whole(array)}
            jobs.append({"array": {"spec": spec, "steps": [step]}})
            arrays.append(array)
        found = cairn_cli.answers("spec_tool", jobs)
        holder[place] = {**web, "headers": ["X-Key: mistaken"]}
        (refused,) = cairn_cli.answers("spec_tool", [jobs[-1]])
    for i, (array, got) in enumerate(zip(arrays, found, strict=True)):
        assert "error" not in got, (jobs[i], got)
        assert (scratch / f"{i}.out").read_bytes() == leaves.raw_bytes(array), jobs[i]
    assert "403" in refused["error"] and "mistaken" not in refused["error"]


# ---- what is refused ----
S3 = {"driver": "s3", "bucket": "bucket"}
GCS = {"driver": "gcs", "bucket": "bucket"}
HTTP = {"driver": "http", "base_url": "http://h/a"}


def credentials(**members):
    return {**S3, "aws_credentials": members}


BOTH_REFUSE = [
    {"driver": "s3"},
    {**S3, "foo": 1},
    {**S3, "path": 1},
    {**S3, "aws_region": 3},
    {**S3, "requester_pays": 1},
    {**S3, "use_conditional_write": "x"},
    {**S3, "host_header": "h"},
    {**S3, "s3_request_retries": 3},
    {**S3, "context": 3},
    {**S3, "aws_credentials": 3},
    {**S3, "aws_credentials": None},
    {**S3, "aws_credentials": "foo"},
    credentials(),
    credentials(type="foo"),
    credentials(type="environment", profile="x"),
    credentials(type="ecs", auth_token="x"),
    credentials(type="ecs", auth_token_file="/x"),
    credentials(type="imds", x=1),
    {"driver": "gcs"},
    {**GCS, "endpoint": "http://x"},
    {**GCS, "gcs_request_concurrency": 3},
    {**GCS, "gcs_user_project": {"foo": 1}},
    {"driver": "http"},
    {"driver": "http", "base_url": "ftp://h/a"},
    {"driver": "http", "base_url": "http://h/a#b"},
    {"driver": "http", "base_url": "http://h/%zz"},
    {**HTTP, "path": "/b"},
    {**HTTP, "foo": 1},
    {**HTTP, "headers": "A: b"},
    {**HTTP, "headers": ["A b: c"]},
    {**HTTP, "headers": [": c"]},
    {**HTTP, "headers": ["A: b\r\nC: d"]},
    "gs://bucket/a?x",
    "s3://bucket/a#x",
    "s3://bucket/%zz",
    "s3+http://h/bucket/a",
    "http://h/a#b",
]

# Members that TensorStore uses and Cairn does not, by their place.
WE_REFUSE = [
    ({**S3, "use_conditional_write": False}, "/use_conditional_write"),
    ({**S3, "endpoint": "http://h", "host_header": "h"}, "/host_header"),
    ({"driver": "s3", "endpoint": "http://bucket.h"}, "/bucket"),
    ({**S3, "endpoint": "http://h/path"}, "/endpoint"),
    (credentials(type="ecs", endpoint="http://h"), "/aws_credentials/endpoint"),
    ({**GCS, "gcs_user_project": {"project_id": "p"}}, "/gcs_user_project/project_id"),
    ({**HTTP, "headers": ["Host: x"]}, "/headers/0"),
    ({"driver": "http", "base_url": "http://h/a?b=c"}, "/base_url"),
    ({"driver": "http", "base_url": "http://u:p@h/a"}, "/base_url"),
]


def spec_of(spec):
    """The spec of a store, or the error."""
    try:
        return ts.KvStore.Spec(spec)
    except ValueError as error:
        return error
    except NotImplementedError:  # of the URL that it has no syntax for
        return None


@pytest.mark.covers(
    "stores.open", alone=True,
    note="`host_header`, `gcs_user_project` and other members are refused by name.",
)
def test_what_is_refused():
    jobs = [{"kv": {"spec": spec, "steps": []}} for spec in BOTH_REFUSE]
    for spec, got in zip(BOTH_REFUSE, cairn_cli.answers("spec_tool", jobs), strict=True):
        assert isinstance(spec_of(spec), ValueError), spec
        code, message = got["error"].split(": ", 1)
        assert code in ("invalid_argument", "unimplemented") and message.startswith("spec"), got
    jobs = [{"kv": {"spec": spec, "steps": []}} for spec, _ in WE_REFUSE]
    found = cairn_cli.answers("spec_tool", jobs)
    for (spec, place), got in zip(WE_REFUSE, found, strict=True):
        assert not isinstance(spec_of(spec), ValueError), spec
        assert f"spec {place}: " in got["error"], (spec, got)
