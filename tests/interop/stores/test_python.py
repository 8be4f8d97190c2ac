"""The Python package at the URLs of real object stores, with `storage_options`."""

import subprocess
import sys
import traceback

import cairn_cli
import numpy as np
import pytest
import store_clients

import cairn

GOLDEN = cairn_cli.ROOT / "tests/golden/orbax"
FOLDERS = [GOLDEN / "demo", *sorted(path for path in GOLDEN.glob("orbax-*/*") if path.is_dir())]
NO_STORE = ["AWS_ENDPOINT_URL", "AWS_REGION", "AWS_PROFILE", "STORAGE_EMULATOR_HOST"]


@pytest.fixture(autouse=True)
def no_other_options(monkeypatch):
    """What the tests pass must be enough."""
    for name in (*NO_STORE, "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)


def options_of(store, keys=None):
    if store.name == "GCS":
        return {"endpoint": store.endpoint, "anonymous": True}
    keys = keys or store.admin
    account = {"access_key": keys.access, "secret_key": keys.secret}
    return {"endpoint": store.endpoint, "region": store.region, **account}


def outcome(path, call, **options):
    """What the call returns, or its error; with PATH for the path."""
    try:
        found = call(path, **options)
    except Exception as error:
        return type(error), str(error).replace(str(path), "PATH")
    return comparable(found)


def comparable(tree):
    if isinstance(tree, dict):
        return {key: comparable(value) for key, value in tree.items() if key != "seconds"}
    if isinstance(tree, (list, tuple)):
        return type(tree).__name__, [comparable(value) for value in tree]
    if isinstance(tree, np.ndarray):
        return str(tree.dtype), tree.shape, tree.tobytes()
    return repr(tree)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_golden_checkpoints_load_as_they_do_locally(seaweedfs, folder):
    store_clients.upload(seaweedfs, folder)
    options = {"storage_options": options_of(seaweedfs)}
    for call in (cairn.load, cairn.stats, cairn.du):
        assert outcome(seaweedfs.url, call, **options) == outcome(folder, call), call.__name__


def test_the_demo_on_every_store(store):
    folder = GOLDEN / "demo"
    store_clients.upload(store, folder)
    options = options_of(store)
    loaded = cairn.load(store.url, storage_options=options)
    assert comparable(loaded) == comparable(cairn.load(folder))
    assert cairn.verify(store.url, storage_options=options)
    assert cairn.diff(store.url, folder, storage_options=options).equal
    opened = cairn.open(store.url, storage_options=options)
    tensor = max(opened.tensors.values(), key=lambda each: each.nbytes)
    assert np.array_equal(tensor[:1], cairn.open(folder).tensors[tensor.name].numpy()[:1])


def test_tensorflow_s_libraries_do_not_mix_with_those_of_the_transport(seaweedfs):
    """TensorFlow shows BoringSSL's functions to every library that is loaded after it."""
    store_clients.upload(seaweedfs, GOLDEN / "demo")
    program = (
        "import sys, tensorflow, cairn\n"
        "options = dict(zip(sys.argv[2::2], sys.argv[3::2]))\n"
        "print(len(cairn.load(sys.argv[1], storage_options=options)))"
    )
    options = [text for pair in options_of(seaweedfs).items() for text in pair]
    done = subprocess.run(
        [sys.executable, "-c", program, seaweedfs.url, *options], capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, f"{len(cairn.load(GOLDEN / 'demo'))}\n")


def test_a_wrong_secret_is_an_error_without_it(s3):
    store_clients.upload(s3, GOLDEN / "demo")
    wrong = store_clients.Keys(s3.admin.access, "not-the/secret+of-it")
    for call in (cairn.load, cairn.open, cairn.verify):
        with pytest.raises(OSError, match="SignatureDoesNotMatch") as raised:
            call(s3.url, storage_options=options_of(s3, wrong))
        assert not isinstance(raised.value, (FileNotFoundError, cairn.CorruptionError))
        shown = "".join(traceback.format_exception(raised.value)) + repr(raised.value)
        assert wrong.secret not in shown and "Signature=" not in shown


def test_options_of_one_call_do_not_stay(s3):
    """Other keys in a later call are the keys of that call."""
    store_clients.upload(s3, GOLDEN / "demo")
    cairn.load(s3.url, storage_options=options_of(s3))
    with pytest.raises(OSError):
        cairn.load(s3.url, storage_options={**options_of(s3), "secret_key": "another"})
    cairn.load(s3.url, storage_options=options_of(s3, s3.reader))


def test_an_unknown_option_is_named(seaweedfs):
    given = {**options_of(seaweedfs), "key": "x"}
    with pytest.raises(ValueError, match=r"unknown option 'key'; the options are access_key, "):
        cairn.load(seaweedfs.url, storage_options=given)


@pytest.mark.parametrize("name", ["m.safetensors", "m.npz", "m.msgpack", "m.pt", "dcp"])
def test_saves_and_conversions_write_files(store, tmp_path, name):
    form = {"format": "dcp"} if name == "dcp" else {}
    tree = {"a": np.arange(6, dtype=np.float32), "b": np.array([1, 2], dtype=np.int64)}
    options = {"storage_options": options_of(store)}
    url = f"{store.url}/{name}"
    cairn.save(url, tree, **form, **options)
    assert comparable(cairn.load(url, **options)) == comparable(tree)
    with pytest.raises(FileExistsError, match="already exists"):
        cairn.save(url, tree, **form, **options)
    cairn.save(url, {"a": tree["b"]}, overwrite=True, **form, **options)
    assert comparable(cairn.load(url, **options)) == comparable({"a": tree["b"]})
    cairn.convert(url, f"{store.url}/copy.npz", **options)
    cairn.convert(f"{store.url}/copy.npz", tmp_path / "copy.npz", **options)
    assert comparable(dict(np.load(tmp_path / "copy.npz"))) == comparable({"a": tree["b"]})
    target = {"target_storage_options": options["storage_options"]}
    cairn.convert(tmp_path / "copy.npz", f"{store.url}/more.npz", **target)
    assert comparable(cairn.load(f"{store.url}/more.npz", **options)) == comparable(
        {"a": tree["b"]}
    )
