"""URLs of stores: every function that reads takes them, and every other refuses them."""

import pathlib
import re
import traceback

import cairn
import cairn.orbax
import cairn.tensorflow
import loopback_s3
import numpy as np
import pytest
from same import assert_same

ROOT = pathlib.Path(__file__).resolve().parents[2]
TREE = {"params": {"w": np.arange(600.0).reshape(20, 30), "b": np.ones(3, np.float32)}, "step": 3, "name": "x"}
OPTIONS = ["access_key", "anonymous", "bearer_token", "ca_file", "connect_timeout", "endpoint", "max_connections", "path_style", "profile",
           "region", "retry_time", "secret_key", "session_token", "stall_timeout", "verify_tls"]


@pytest.fixture(autouse=True)
def no_other_keys(monkeypatch, tmp_path):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One checkpoint, and a run of two steps."""
    folder = tmp_path_factory.mktemp("stored")
    cairn.save(folder / "one", TREE)
    with cairn.CheckpointManager(folder / "run") as manager:
        for step in (1, 2):
            manager.save(step, {**TREE, "step": step})
    return folder


@pytest.fixture(params=[False, True], ids=["keys", "anonymous"])
def server(request, folder):
    with loopback_s3.serving(folder, request.param) as server:
        yield server


@pytest.fixture
def with_keys(folder):
    with loopback_s3.serving(folder) as server:
        yield server


def test_load_and_open(folder, server):
    url, options = "s3://bucket/one", server.options
    assert_same(cairn.load(url, storage_options=options), cairn.load(folder / "one"))
    loaded = cairn.load(url, TREE, storage_options=options)
    assert_same(loaded["params"], TREE["params"])
    assert_same(cairn.load(url + "/", include="params/*", storage_options=options), {"params": TREE["params"]})
    opened, local = cairn.open(url, storage_options=options), cairn.open(folder / "one")
    assert opened.tree().replace(url, "PATH") == local.tree().replace(str(folder / "one"), "PATH")
    assert {**opened.info, "path": None} == {**local.info, "path": None}
    w = opened["params"]["w"]
    assert w[3:5].tolist() == TREE["params"]["w"][3:5].tolist() and opened["name"] == "x"
    assert_same(opened["params"].load(), TREE["params"])
    assert_same(cairn.load(opened), cairn.load(folder / "one"))
    out = np.empty((20, 30))
    assert w.read_into(out).tobytes() == TREE["params"]["w"].tobytes()
    with pytest.raises(RuntimeError, match="local file"):
        w.view()
    assert opened.json_item("metrics") is None and opened.path == url
    assert repr(opened).replace(url, "PATH") == repr(local).replace(str(folder / "one"), "PATH")


def test_steps_and_items(folder, server):
    url, options = "s3://bucket/run", server.options
    assert cairn.load(url, item="default", storage_options=options)["step"] == 2
    assert cairn.load(url, step=1, item="default", storage_options=options)["step"] == 1
    assert cairn.open(url, step=1, storage_options=options).info["step"] == 1
    with pytest.raises(FileNotFoundError):
        cairn.load(url, step=7, storage_options=options)
    with pytest.raises(FileNotFoundError, match="s3://bucket/none"):
        cairn.open("s3://bucket/none", storage_options=options)


def test_tools(folder, server):
    url, options = "s3://bucket/one", server.options
    assert cairn.verify(url, strict=True, storage_options=options)
    assert cairn.verify("s3://bucket/run", step=1, storage_options=options).data["step"] == 1
    assert cairn.diff(url, folder / "one", storage_options=options).equal
    assert cairn.diff(folder / "one", url, storage_options=options).equal
    assert not cairn.diff(url, "s3://bucket/run", storage_options=options).equal
    assert cairn.stats(url, "params.w", storage_options=options) == cairn.stats(folder / "one", "params.w")
    assert cairn.du(url, storage_options=options) == cairn.du(folder / "one")
    opened = cairn.open(url, storage_options=options)
    for call in (cairn.load, cairn.stats, cairn.du):
        with pytest.raises(ValueError, match=r"storage_options (is|are) .*for open\(\)|storage_options are for open"):
            call(opened, storage_options=options)


def test_a_damaged_object_is_a_finding(folder, tmp_path):
    import shutil

    copied = shutil.copytree(folder / "one", tmp_path / "b/one")
    data = max((file for file in copied.rglob("*") if file.is_file()), key=lambda file: file.stat().st_size)
    data.write_bytes(data.read_bytes()[:-40] + bytes(40))
    with loopback_s3.serving(tmp_path / "b") as server:
        assert cairn.verify("s3://bucket/one", storage_options=server.options).damaged


def seen_of(raised):
    return "".join(traceback.format_exception(raised.type, raised.value, raised.tb)) + repr(raised.value)


def test_wrong_keys_are_an_error_without_them(with_keys):
    with_keys.refuses = True
    for call in (cairn.load, cairn.open, cairn.verify, cairn.stats, cairn.du):
        with pytest.raises(OSError, match="SignatureDoesNotMatch") as raised:
            call("s3://bucket/one", storage_options=with_keys.options)
        assert loopback_s3.SECRET not in seen_of(raised) and not isinstance(raised.value, FileNotFoundError)
        assert "Signature=" not in seen_of(raised)


def test_a_server_that_is_not_there(with_keys):
    options = {**with_keys.options, "endpoint": "http://127.0.0.1:9", "retry_time": 0.1, "connect_timeout": 0.5}
    with pytest.raises(OSError, match="127.0.0.1:9") as raised:
        cairn.load("s3://bucket/one", storage_options=options)
    assert loopback_s3.SECRET not in seen_of(raised)


def test_options_are_those_of_the_library(with_keys, folder):
    header = (ROOT / "include/cairn/storage/store_options.h").read_text()
    members = re.findall(r"^  [\w:<>]+ (\w+)(?: = |\{).*;", header, re.M)
    assert sorted(set(members) - {"credentials", "requests", "received", "sent"}) == OPTIONS  # the last three: StoreTraffic
    for name in OPTIONS:
        assert re.search(rf"\b{name}\b", cairn.open.__doc__), name
    with pytest.raises(ValueError) as raised:
        cairn.load(folder / "one", storage_options={"endpont": "http://127.0.0.1:9"})
    assert str(raised.value) == f"storage_options: unknown option 'endpont'; the options are {', '.join(OPTIONS)}"
    assert cairn.load("s3://bucket/one", storage_options={**dict.fromkeys(OPTIONS), **with_keys.options})["step"] == 3
    assert cairn.load(folder / "one", storage_options={"region": "eu-west-1"})["step"] == 3
    everything = {"region": "eu-west-1", "path_style": True, "verify_tls": False, "max_connections": 2, "connect_timeout": 3, "stall_timeout": 2.5}
    assert cairn.load("s3://bucket/one", storage_options={**with_keys.options, **everything})["step"] == 3


@pytest.mark.parametrize("options, said", [
    ({"secret_key": b"hidden"}, "secret_key: expected a str, not bytes"),
    ({"access_key": ["hidden"]}, "access_key: expected a str, not list"),
    ({"session_token": 5}, "session_token: expected a str, not int"),
    ({"bearer_token": b"hidden"}, "bearer_token: expected a str, not bytes"),
    ({"endpoint": b"http://me:hidden@host"}, "endpoint: expected a str, not bytes"),
    ({"access_key": "hidden"}, "access_key and secret_key: only one of them is given"),
    ({"secret_key": "hidden"}, "access_key and secret_key: only one of them is given"),
    ({"session_token": "hidden"}, "session_token: access_key and secret_key are missing"),
    ({"anonymous": "no"}, "anonymous: expected True or False, not 'no'"),
    ({"max_connections": 0}, "max_connections: expected a positive int, not 0"),
    ({"max_connections": -1}, "max_connections: expected an int that is not negative, not -1"),
    ({"retry_time": 0}, "retry_time: 0 is not a positive number of seconds"),
    ({"connect_timeout": "1"}, "connect_timeout: expected a number of seconds, not '1'"),
    ({5: "hidden"}, "the name of an option: expected a str, not int"),
    ("hidden", "expected a dict, not str"),
    (b"hidden", "expected a dict, not bytes"),
    ([("secret_key", "hidden")], "expected a dict, not list"),
])
def test_wrong_options(folder, options, said):
    path = folder / "one"
    calls = [lambda: cairn.load(path, storage_options=options), lambda: cairn.open(path, storage_options=options),
             lambda: cairn.verify(path, storage_options=options), lambda: cairn.diff(path, path, storage_options=options),
             lambda: cairn.stats(path, storage_options=options), lambda: cairn.du(path, storage_options=options)]
    for call in calls:
        with pytest.raises(ValueError) as raised:
            call()
        assert str(raised.value) == "storage_options: " + said and "hidden" not in repr(raised.value)


@pytest.mark.parametrize("name", ["c", "c.safetensors", "c.npz", "c.msgpack"])
def test_what_is_local_refuses_urls(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    url = f"s3://bucket/{name}"
    cairn.save(tmp_path / "here", {"a": 1})
    with pytest.raises(NotImplementedError, match=r"a local path is needed here, not a URL; cairn.open, load, .* read URLs \(s3://, "):
        cairn.save(tmp_path / "new", {"a": 1}, reuse_from=url)
    web = f"http://host/{name}"
    for call in (lambda: cairn.save("hf://o/n/c", {"a": 1}), lambda: cairn.save(web, {"a": 1}),
                 lambda: cairn.convert(tmp_path / "here", "hf://o/n/c.npz"),
                 lambda: cairn.reshard(tmp_path / "here", web, chunk_bytes=8), lambda: cairn.compact(web),
                 lambda: cairn.tensorflow.save(web, {"a": 1})):
        with pytest.raises(NotImplementedError, match="can only be read; Cairn writes to s3://, gs:// and local paths"):
            call()
    assert [path.name for path in tmp_path.iterdir()] == ["here"]


def test_other_schemes_are_refused_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for call in (cairn.load, cairn.open, cairn.verify, cairn.stats, cairn.du, lambda url: cairn.diff(url, url)):
        with pytest.raises(NotImplementedError, match="no store for URLs of scheme 'ftp'; it has s3, gs, http, https, hf"):
            call("ftp://host/c")
    assert list(tmp_path.iterdir()) == []
