"""Files of other programs are named; Git LFS pointers are; folders of flax's legacy checkpoints open at a step; a database without
arrays is described."""

import os
import pathlib
import struct

import flax
import flax.training.checkpoints
import numpy as np
import orbax.checkpoint as ocp
import pytest
import safetensors.numpy
import tensorstore as ts

import cairn_cli

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n"


# ---- other programs ----
def write_keras(path):
    import keras

    keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]).save(path)


@pytest.mark.parametrize("name, words", [("model.keras", "a Keras model"), ("model.h5", "an HDF5 file, as Keras writes")])
def test_keras(scratch, name, words):
    write_keras(scratch / name)
    refused = cairn_cli.run("ls", scratch / name, status=cairn_cli.IO)
    assert words in refused.stderr.decode() and "which Cairn does not read yet" in refused.stderr.decode()


def zip_of(first_name):
    import io
    import zipfile

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(first_name, b"content")
    return file.getvalue()


PYTORCH = [  # the first bytes, and what is wrong behind them
    (zip_of("archive/data.pkl"), "archive/data.pkl: "),
    (zip_of("model/.format_version"), "without an object of PyTorch"),
    (b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.", "byte 21: "),
]
HEADERS = [
    ("a GGUF model,", b"GGUF" + struct.pack("<IQQ", 3, 0, 0)),
    ("an HDF5 file, as Keras writes (.h5),", bytes(1024) + b"\x89HDF\r\n\x1a\n" + bytes(88)),
    ("a Python pickle,", b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00}\x94."),
]


@pytest.mark.parametrize("name", ["x.pt", "pytorch_model.bin", "x"])
@pytest.mark.parametrize("words, content", HEADERS, ids=range(len(HEADERS)))
def test_headers(scratch, words, content, name):
    (scratch / name).write_bytes(content)
    refused = cairn_cli.run("ls", scratch / name, status=cairn_cli.IO)
    assert f"{scratch / name} is {words} which Cairn does not read yet" in refused.stderr.decode()
    for cut in range(0, len(content), max(1, len(content) // 30)):  # a cut header is never a crash, and never good
        (scratch / name).write_bytes(content[:cut])
        if content[:cut] != b"\x80":  # flax's empty map
            cairn_cli.run("ls", scratch / name, status=cairn_cli.IO)


@pytest.mark.parametrize("words, content", HEADERS, ids=range(len(HEADERS)))
def test_folders(scratch, words, content):
    """The first such file by name is named; others, unreadable ones too, are passed over."""
    folder = scratch / "model"
    (folder / "b").mkdir(parents=True)
    (folder / "README.md").write_text("about")
    (folder / "a").symlink_to("nowhere")
    os.mkfifo(folder / "a pipe")
    nothing = cairn_cli.run("ls", folder, status=cairn_cli.IO).stderr.decode()
    assert f"{folder}: not a checkpoint" in nothing
    (folder / "b" / "x").write_bytes(content)  # not in this folder
    assert nothing == cairn_cli.run("ls", folder, status=cairn_cli.IO).stderr.decode()
    for name, shown in [("z", "z"), ("w.h5", "w.h5"), ("v\x1b[31m", "v\\x1b[31m")]:
        (folder / name).write_bytes(content)
        for command in ("ls", "info", "verify"):
            refused = cairn_cli.run(command, folder, status=cairn_cli.IO).stderr.decode()
            assert f"{folder}/{shown} is {words} which Cairn does not read yet" in refused and "\x1b" not in refused


@pytest.mark.parametrize("content, words", PYTORCH, ids=range(len(PYTORCH)))
def test_beginnings_of_pytorch_files(scratch, content, words):
    """They are opened as such, whatever the name, and never good when they are cut."""
    for name in ("x.pt", "pytorch_model.bin", "x"):
        (scratch / name).write_bytes(content)
        refused = cairn_cli.run("ls", scratch / name, status=cairn_cli.IO).stderr.decode()
        assert f"{scratch / name}: " in refused and words in refused
        for cut in range(0, len(content), max(1, len(content) // 30)):
            (scratch / name).write_bytes(content[:cut])
            if content[:cut] != b"\x80":  # flax's empty map
                cairn_cli.run("ls", scratch / name, status=cairn_cli.IO)


def test_folders_of_keras_and_pytorch(scratch):
    import keras
    import torch

    keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)]).save_weights(scratch / "model.weights.h5")
    assert f"{scratch}/model.weights.h5 is an HDF5 file, as Keras writes" in cairn_cli.run("ls", scratch, status=cairn_cli.IO).stderr.decode()
    torch.save({"w": torch.ones(3)}, scratch / "checkpoint.pt")
    assert f"{scratch}/checkpoint.pt is a PyTorch checkpoint, but the folder is not one; open this file" in cairn_cli.run("ls", scratch, status=cairn_cli.IO).stderr.decode()


def test_a_folder_with_an_index_without_shards(scratch):
    (scratch / "model.safetensors.index.json").write_text('{"weight_map": {"a": "a.safetensors"}}')
    (scratch / "pytorch_model.bin").write_bytes(PYTORCH[0][0])
    refused = cairn_cli.run("ls", scratch, status=cairn_cli.IO).stderr.decode()
    assert "model.safetensors.index.json" in refused and "a.safetensors: the shard is missing" in refused


def test_a_folder_of_many_files(scratch):
    """Only so many files are opened."""
    for number in range(1000):
        (scratch / f"{number:04}").write_bytes(b"text")
    (scratch / "z").write_bytes(PYTORCH[0][0])
    assert f"{scratch}: not a checkpoint" in cairn_cli.run("ls", scratch, status=cairn_cli.IO).stderr.decode()
    (scratch / "0000").unlink()
    assert "z is a PyTorch checkpoint" in cairn_cli.run("ls", scratch, status=cairn_cli.IO).stderr.decode()


def test_legacy_pytorch_number():
    """The number of PyTorch's legacy files, as Python pickles it."""
    import pickle

    assert pickle.dumps(0x1950A86A20F9469CFC6C, protocol=2)[:14] == PYTORCH[2][0][:14]


# ---- Git LFS ----
def is_pointer(*command, status=cairn_cli.IO):
    done = cairn_cli.run(*command, status=status)
    return b"is a Git LFS pointer, not the file itself: run 'git lfs pull'" in done.stdout + done.stderr


@pytest.mark.parametrize("name", ["model.safetensors", "x.npz", "x.npy", "x.msgpack", "checkpoint_3", "pytorch_model.bin"])
def test_lfs_pointers(scratch, name):
    (scratch / name).write_bytes(POINTER)
    assert is_pointer("ls", scratch / name)
    if name in ("model.safetensors", "checkpoint_3"):
        assert is_pointer("ls", scratch)


def test_lfs_pointer_in_a_set(scratch):
    """A clone of a model whose index is there and whose shards are not."""
    safetensors.numpy.save_file({"a": np.ones(3)}, scratch / "a.safetensors")
    (scratch / "b.safetensors").write_bytes(POINTER)
    (scratch / "model.safetensors.index.json").write_text('{"weight_map": {"a": "a.safetensors", "b": "b.safetensors"}}')
    assert is_pointer("ls", scratch)


@pytest.mark.parametrize("options, pattern", [({}, "_METADATA"), ({}, "manifest.ocdbt"), ({}, "ocdbt.process_0/d/*"), ({}, "d/*"), ({"use_ocdbt": False}, "a/.zarray"), ({"use_ocdbt": False}, "a/0.0")])
def test_lfs_pointers_in_orbax(scratch, options, pattern):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        checkpointer.save(scratch / "ckpt", {"a": np.random.default_rng(1).standard_normal((50, 60))})
    files = list((scratch / "ckpt").glob(pattern))
    assert files
    for file in files:
        file.write_bytes(POINTER)
    assert is_pointer("verify", scratch / "ckpt", status=cairn_cli.NO)
    assert is_pointer("cat", scratch / "ckpt", "a")


@pytest.fixture
def tensorflow_prefix(scratch):
    """A checkpoint of one data file, without a state file."""
    import tensorflow as tf

    tf.raw_ops.SaveV2(prefix=str(scratch / "tf" / "model"), tensor_names=["s", "w"], shape_and_slices=["", ""], tensors=[tf.constant([b"text"] * 9), tf.ones((9, 9))])
    return scratch / "tf" / "model"


def test_lfs_pointer_in_place_of_a_tensorflow_index(tensorflow_prefix):
    index = tensorflow_prefix.with_suffix(".index")
    index.write_bytes(POINTER)
    for path in (tensorflow_prefix, index, tensorflow_prefix.parent):
        assert is_pointer("ls", path), path
    assert is_pointer("verify", tensorflow_prefix, status=cairn_cli.NO)
    (tensorflow_prefix.parent / "checkpoint").write_text('model_checkpoint_path: "model"')
    assert is_pointer("ls", tensorflow_prefix.parent)


def test_lfs_pointer_beside_no_data_is_no_tensorflow_index(scratch):
    safetensors.numpy.save_file({"a": np.ones(3)}, scratch / "model.safetensors")
    (scratch / "faiss.index").write_bytes(POINTER)
    assert [entry["name"] for entry in cairn_cli.ls(scratch)] == ["a"]


def test_lfs_pointer_in_place_of_tensorflow_data(tensorflow_prefix):
    data = tensorflow_prefix.parent / "model.data-00000-of-00001"
    assert len(data.read_bytes()) > len(POINTER)
    data.write_bytes(POINTER)
    for name in ("s", "w"):
        assert is_pointer("cat", tensorflow_prefix, name)
    findings = cairn_cli.verify(tensorflow_prefix, status=cairn_cli.NO)["findings"]
    assert [finding["tensor"] for finding in findings] == ["s", "w"]
    for finding in findings:
        assert f"{data} is a Git LFS pointer" in finding["message"]
    assert is_pointer("ls", tensorflow_prefix)


# ---- flax ----
@pytest.fixture
def flax_folder(scratch):
    before = flax.config.flax_use_orbax_checkpointing
    flax.config.update("flax_use_orbax_checkpointing", False)
    for step in (1, 2, 9, 10, 100):
        flax.training.checkpoints.save_checkpoint(str(scratch / "run"), {"step": np.int32(step)}, step, keep=10)
    flax.config.update("flax_use_orbax_checkpointing", before)
    return scratch / "run"


def step_in(path, *options):
    return np.frombuffer(cairn_cli.run("cat", "--raw", *options, path, "step").stdout, np.int32)[0]


def test_flax_folder(flax_folder):
    """The natural order: 100 comes after 9. A save in progress and other names are not steps."""
    (flax_folder / "checkpoint_tmp").write_bytes(b"half")
    (flax_folder / "checkpoint_7_gda").mkdir()
    latest = flax.training.checkpoints.latest_checkpoint(str(flax_folder))
    assert pathlib.Path(latest).name == "checkpoint_100"
    assert step_in(flax_folder) == flax.training.checkpoints.restore_checkpoint(str(flax_folder), None)["step"] == 100
    for step in (1, 2, 9, 10, 100):
        assert step_in(flax_folder, "--step", step) == step
    missing = cairn_cli.run("ls", "--step", 11, flax_folder, status=cairn_cli.IO)
    assert b"it has checkpoint_1, checkpoint_2, checkpoint_9, checkpoint_10, checkpoint_100" in missing.stderr


def test_flax_fractional_steps(flax_folder):
    content = (flax_folder / "checkpoint_9").read_bytes()
    for name in ("checkpoint_100.5", "checkpoint_1e3"):
        (flax_folder / name).write_bytes(content)
        latest = flax.training.checkpoints.latest_checkpoint(str(flax_folder))
        assert pathlib.Path(latest).name == name
        assert step_in(flax_folder) == 9


def test_flax_folder_takes_no_item(flax_folder):
    assert b"an item was requested" in cairn_cli.run("ls", "--item", "x", flax_folder, status=cairn_cli.IO).stderr


def test_flax_damaged_step(flax_folder):
    file = flax_folder / "checkpoint_100"
    file.write_bytes(file.read_bytes()[:-3])
    assert b"checkpoint_100" in cairn_cli.run("ls", flax_folder, status=cairn_cli.IO).stderr
    assert step_in(flax_folder, "--step", 10) == 10


# ---- OCDBT ----
def test_a_database_without_arrays(scratch):
    store = ts.KvStore.open(f"file://{scratch}/db/|ocdbt").result()
    for key in ("hello", "dir/x"):
        store.write(key, b"value").result()
    listed = cairn_cli.run("ls", scratch / "db")
    assert listed.stdout == b"" and b"an OCDBT key-value store; its keys: dir/x, hello" in listed.stderr
    info = cairn_cli.run("info", scratch / "db").stdout
    assert b"OCDBT key-value store without arrays" in info and b"dir/x, hello" in info
    assert cairn_cli.verify(scratch / "db")["ok"]
