"""Files of other formats than Orbax, written to real object stores: plain GETs bring what the real packages load."""

import http.client
import json
import urllib.parse

import cairn_cli
import fault_proxy
import numpy as np
import pytest
import store_clients

VALUES = {
    "w": np.arange(12, dtype=np.float32).reshape(3, 4),
    "b": np.array([1, -2, 3], dtype=np.int64),
    "n": np.full((5, 2), 0.5, dtype=np.float64),
}


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    path = tmp_path_factory.mktemp("source") / "source.npz"
    np.savez(path, **VALUES)
    return path


def convert(store, source, name, *options, status=cairn_cli.GOOD):
    done = cairn_cli.call("convert", source, f"{store.url}/{name}", *options, env=store.variables())
    assert done.returncode == status, done.stderr.decode()
    return done.stderr.decode()


def get(store, name):
    """The bytes of an object by one plain GET; None if there is none."""
    if isinstance(store, store_clients.S3):
        return store.get(name) if name in store.list() else None
    quoted = urllib.parse.quote(f"{store.prefix}/{name}", safe="")
    connection = http.client.HTTPConnection("127.0.0.1", store.port, timeout=20)
    connection.request("GET", f"/storage/v1/b/{store.bucket}/o/{quoted}?alt=media")
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return body if answer.status == 200 else None


def download(store, folder, names):
    for name in names:
        (folder / name).write_bytes(get(store, name))


def expect_equal(found):
    assert sorted(found) == sorted(VALUES)
    for name, value in VALUES.items():
        np.testing.assert_array_equal(np.asarray(found[name]), value, strict=True)


def test_a_safetensors_file(store, source, tmp_path):
    from safetensors.numpy import load_file

    convert(store, source, "m.safetensors", "--metadata", "format=pt")
    download(store, tmp_path, ["m.safetensors"])
    expect_equal(load_file(tmp_path / "m.safetensors"))


def test_a_set_of_safetensors_files(store, source, tmp_path):
    from safetensors.numpy import load_file

    convert(store, source, "m.safetensors", "--shard-bytes", "80")
    index = json.loads(get(store, "m.safetensors.index.json"))
    files = sorted(set(index["weight_map"].values()))
    assert len(files) == 2
    download(store, tmp_path, files)
    expect_equal(
        {key: value for name in files for key, value in load_file(tmp_path / name).items()}
    )
    assert "already exists" in convert(
        store, source, "m.safetensors", "--shard-bytes", "80", status=cairn_cli.IO
    )
    convert(store, source, "m.safetensors", "--force")
    assert [get(store, name) for name in [*files, "m.safetensors.index.json"]] == [None] * 3
    download(store, tmp_path, ["m.safetensors"])
    expect_equal(load_file(tmp_path / "m.safetensors"))


@pytest.mark.parametrize("options", [[], ["--shard-bytes", "80"]], ids=["one_file", "set"])
def test_the_folder_of_a_model(store, source, tmp_path, options):
    """--hf-assets puts what from_pretrained reads beside the weights."""
    from safetensors.numpy import load_file

    assets = {"config.json": b'{"model_type": "llama"}', "tokenizer.json": b"{}"}
    for name, content in assets.items():
        (tmp_path / name).write_bytes(content)
    call = ["model", "--hf-assets", tmp_path, *options]
    convert(store, source, *call, "--dry-run")
    assert get(store, "model/config.json") is None
    convert(store, source, *call)
    assert {name: get(store, f"model/{name}") for name in assets} == assets
    files = ["model/model.safetensors"]
    if options:
        index = json.loads(get(store, "model/model.safetensors.index.json"))
        files = [f"model/{name}" for name in sorted(set(index["weight_map"].values()))]
    (tmp_path / "model").mkdir()
    download(store, tmp_path, files)
    expect_equal(
        {key: value for name in files for key, value in load_file(tmp_path / name).items()}
    )
    (tmp_path / "config.json").write_text("{}")
    assert "config.json: exists with other content" in convert(
        store, source, *call, status=cairn_cli.IO
    )
    convert(store, source, *call, "--force")
    assert get(store, "model/config.json") == b"{}"


def test_an_npz_archive(store, source, tmp_path):
    convert(store, source, "m.npz")
    download(store, tmp_path, ["m.npz"])
    expect_equal(np.load(tmp_path / "m.npz"))


def test_a_msgpack_file(store, source):
    from flax.serialization import msgpack_restore

    convert(store, source, "m.msgpack")
    expect_equal(msgpack_restore(get(store, "m.msgpack")))


def test_a_file_of_pytorch(store, source, tmp_path):
    torch = pytest.importorskip("torch")
    convert(store, source, "m.pt")
    download(store, tmp_path, ["m.pt"])
    expect_equal(torch.load(tmp_path / "m.pt", weights_only=True))
    (tmp_path / "local").mkdir()
    cairn_cli.run("convert", source, tmp_path / "local" / "m.pt")
    assert (tmp_path / "local" / "m.pt").read_bytes() == get(store, "m.pt")
    assert "already exists" in convert(store, source, "m.pt", status=cairn_cli.IO)


@pytest.mark.filterwarnings("ignore")
def test_a_distributed_checkpoint(store, source, tmp_path):
    torch = pytest.importorskip("torch")
    from torch.distributed import checkpoint as dcp

    convert(store, source, "m", "--to", "dcp", "--chunk-bytes", "20")
    (tmp_path / "m").mkdir()
    download(store, tmp_path, ["m/.metadata", "m/__0_0.distcp"])
    target = {name: torch.zeros(value.shape, dtype=torch.from_numpy(value).dtype) for name, value in VALUES.items()}
    dcp.load(target, checkpoint_id=tmp_path / "m", no_dist=True)
    expect_equal(target)
    cairn_cli.run("convert", source, tmp_path / "local", "--to", "dcp", "--chunk-bytes", "20")
    for name in (".metadata", "__0_0.distcp"):
        assert (tmp_path / "local" / name).read_bytes() == get(store, f"m/{name}")
    assert "already exists" in convert(store, source, "m", "--to", "dcp", status=cairn_cli.IO)
    convert(store, source, "m/__3_0.distcp", "--to", "msgpack")  # of an older save
    convert(store, source, "m", "--to", "dcp", "--force", "--include", "w")
    assert get(store, "m/__3_0.distcp") is None
    convert(store, source, "m/mine.npz")
    assert "mine.npz" in convert(store, source, "m", "--to", "dcp", "--force", status=cairn_cli.IO)


def test_a_tensorflow_checkpoint(store, source, tmp_path):
    convert(store, source, "ckpt", "--to", "tensorflow", "--shard-bytes", "80")
    counts = [n for n in range(1, 9) if get(store, f"ckpt.data-00000-of-{n:05}") is not None]
    assert len(counts) == 1 and counts[0] > 1
    data = [f"ckpt.data-{i:05}-of-{counts[0]:05}" for i in range(counts[0])]
    download(store, tmp_path, ["checkpoint", "ckpt.index", *data])
    tf = pytest.importorskip("tensorflow")
    prefix = tf.train.latest_checkpoint(str(tmp_path))
    assert prefix == str(tmp_path / "ckpt")
    reader = tf.train.load_checkpoint(prefix)
    expect_equal({name: reader.get_tensor(f"{name}/.ATTRIBUTES/VARIABLE_VALUE") for name in VALUES})


@pytest.mark.parametrize("name", ["m.safetensors", "m.npz", "m.msgpack", "m.pt", "m.index"])
def test_cairn_reads_what_it_wrote(store, source, tmp_path, name):
    options = ["--names"] if name == "m.index" else []
    if name == "m.index":
        options += ["--no-latest"]
    convert(store, source, name, *options)
    done = cairn_cli.call("verify", f"{store.url}/{name}", env=store.variables())
    assert done.returncode == cairn_cli.GOOD, done.stderr
    cairn_cli.run("convert", source, tmp_path / name, *options)
    done = cairn_cli.call("diff", f"{store.url}/{name}", tmp_path / name, env=store.variables())
    assert done.returncode == cairn_cli.GOOD, done.stdout


def test_the_endpoint_counts_for_the_target(seaweedfs, source):
    wrong = seaweedfs.variables() | {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    reach = ["--endpoint", seaweedfs.endpoint]
    done = cairn_cli.call("convert", source, f"{seaweedfs.url}/m.npz", *reach, env=wrong)
    assert done.returncode == cairn_cli.GOOD, done.stderr
    assert get(seaweedfs, "m.npz") is not None
    done = cairn_cli.call(
        "convert", f"{seaweedfs.url}/m.npz", "gs://bucket/m.npz", *reach, env=wrong
    )
    assert done.returncode == cairn_cli.USAGE and b"would count for" in done.stderr


def test_large_files_in_parts(store, tmp_path):
    """More than one part of 16 MiB; a second save is refused, and replaces with --force."""
    value = np.arange(5 << 20, dtype=np.int64)
    np.savez(tmp_path / "large.npz", w=value)
    convert(store, tmp_path / "large.npz", "m.npz")
    (tmp_path / "back.npz").write_bytes(get(store, "m.npz"))
    assert np.array_equal(np.load(tmp_path / "back.npz")["w"], value)
    assert "already exists" in convert(store, tmp_path / "large.npz", "m.npz", status=cairn_cli.IO)
    convert(store, tmp_path / "large.npz", "m.npz", "--force")


@pytest.mark.parametrize("target", ["http://127.0.0.1:1/m.npz", "hf://owner/name/m.npz"])
def test_read_only_targets(source, target):
    done = cairn_cli.call("convert", source, target)
    assert done.returncode != cairn_cli.GOOD and b"can only be read" in done.stderr, done.stderr


def test_dry_runs_write_nothing(s3, source):
    convert(s3, source, "m.npz", "--dry-run")
    assert s3.list() == []


@pytest.mark.parametrize("kind", ["lost", "503", "drop"])
def test_faults_on_the_way(store, source, proxy, tmp_path, kind):
    """Every third request fails, or its answer is lost: the set is whole, and replaced as a whole."""
    from safetensors.numpy import load_file

    behind = store.through(proxy(store, [fault_proxy.Fault(kind, every=3)]))
    convert(behind, source, "m.safetensors", "--shard-bytes", "80")
    convert(behind, source, "m.safetensors", "--shard-bytes", "80", "--force")
    names = [f"m-0000{i}-of-00002.safetensors" for i in (1, 2)]
    download(store, tmp_path, names)
    expect_equal(
        {key: value for name in names for key, value in load_file(tmp_path / name).items()}
    )
    assert get(store, "m.safetensors.index.json").startswith(b"{")
