"""Wrong contents are named under every known ending; a folder of two models is refused; shards that are missing do not hide the others."""

import gzip
import io
import json
import os
import tarfile

import numpy as np
import pytest
import safetensors.numpy

from command import FAILURE, GOOD, NO, bad, good, run

ENDINGS = [".safetensors", ".npz", ".npy", ".msgpack", ".index", ""]


def tar_of_a_text():
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        archive.addfile(tarfile.TarInfo("note.txt"), io.BytesIO(b""))
    return file.getvalue()


CONTENTS = {
    "html": (b"\n<!DOCTYPE html><html>Access denied" + b" " * 200, "is a web page (HTML), not a checkpoint"),
    "xml": (b'<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>AccessDenied</Code></Error>', "is an XML document"),
    "json": (b'{"error":"Repository not found"}', 'is JSON ("{"error":"Repository not found"}")'),
    "text": (b"Entry not found", 'is text ("Entry not found")'),
    "pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n", "is a Git LFS pointer, not the file itself: run 'git lfs pull'"),
    "gguf": (b"GGUF\3\0\0\0" + bytes(64), "is a GGUF model, which Cairn does not read yet"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(88), "is an HDF5 file"),
    "gzip": (gzip.compress(b"x" * 100), "is compressed with gzip; decompress it"),
    "tar": (tar_of_a_text(), "is a tar archive; unpack it"),
    "empty": (b"", "is empty (0 bytes)"),
    "zeros": (bytes(5000), "is zeros in its first 4096 bytes"),
    "onnx": (b"\x08\x07\x12\x07pytorch\x1a\x051.9.1:\x02\x0a\0", "is an ONNX model"),
}


@pytest.mark.parametrize("content", CONTENTS)
def test_contents(tmp_path, content):
    data, words = CONTENTS[content]
    for ending in ENDINGS:
        path = tmp_path / f"x{ending}"
        path.write_bytes(data)
        assert bad(FAILURE, "ls", path).startswith(f"cairn: {path} {words}"), ending
        done = run("verify", path)
        assert words.encode() in done.stdout + done.stderr
        assert done.returncode == (FAILURE if ending in ("", ".index") or "html xml json text pointer empty zeros".find(content) < 0 else NO)
    bad(FAILURE, "convert", tmp_path / "x.npz", tmp_path / "out.safetensors")
    assert not (tmp_path / "out.safetensors").exists()
    (tmp_path / "x.data-00000-of-00001").write_bytes(b"")  # now the index is that of a TensorFlow checkpoint
    assert words in bad(FAILURE, "ls", tmp_path / "x.index")


def test_a_shard_with_another_content(tmp_path):
    save_set(tmp_path, 2)
    (tmp_path / "model-00002-of-00002.safetensors").write_bytes(CONTENTS["html"][0])
    done = run("ls", tmp_path)
    assert done.returncode == FAILURE and b"t1" in done.stdout
    assert b"model-00002-of-00002.safetensors is a web page (HTML)" in done.stderr


def test_a_name_of_another_format(tmp_path):
    np.savez(tmp_path / "a.npz", a=np.ones(2))
    (tmp_path / "a.npz").rename(tmp_path / "a.safetensors")
    done = run("ls", tmp_path / "a.safetensors")
    assert done.returncode == GOOD and b"float64" in done.stdout
    assert done.stderr.decode() == f"cairn: {tmp_path}/a.safetensors: its format is npz, although its name ends as those of safetensors files do\n"
    assert run("verify", tmp_path / "a.safetensors").returncode == GOOD
    assert run("verify", "--strict", tmp_path / "a.safetensors").returncode == NO


def test_a_zip_archive_without_arrays(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        archive.writestr("b", "b")
    assert "is a zip archive without arrays, so not an npz file" in bad(FAILURE, "ls", tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz")
    assert good("ls", tmp_path / "b.npz") == ""


# ---- model folders ----


def save_set(folder, shards, value=0.0):
    names = [f"model-{i:05}-of-{shards:05}.safetensors" for i in range(1, shards + 1)]
    for i, name in enumerate(names, 1):
        safetensors.numpy.save_file({f"t{i}": np.full(4, value, np.float32)}, folder / name)
    index = {"metadata": {"total_size": 16 * shards}, "weight_map": {f"t{i}": name for i, name in enumerate(names, 1)}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))


def test_two_models_are_refused(tmp_path):
    save_set(tmp_path, 2)
    safetensors.numpy.save_file({"t1": np.ones(4, np.float32)}, tmp_path / "model.safetensors")
    os.utime(tmp_path / "model.safetensors.index.json", (1, 1))
    for command in ("ls", "info", "verify"):
        message = bad(FAILURE, command, tmp_path)
        assert "holds two models, model.safetensors.index.json (changed 1970" in message and ", of which model.safetensors is newer" in message
    assert "0. 0." in run("cat", tmp_path / "model.safetensors.index.json", "t1").stdout.decode()
    assert "1. 1." in good("cat", tmp_path / "model.safetensors", "t1")
    strays = run("verify", "--strict", tmp_path / "model.safetensors.index.json")
    assert strays.returncode == NO and b"model.safetensors.index.json does not name it" in strays.stdout
    # An index may name a single file.
    (tmp_path / "model.safetensors.index.json").write_text('{"weight_map": {"t1": "model.safetensors"}}')
    for name in ("model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"):
        (tmp_path / name).unlink()
    good("ls", tmp_path)


def test_files_that_the_index_does_not_name_are_mentioned(tmp_path):
    save_set(tmp_path, 2)
    good("verify", "--strict", tmp_path)
    good("ls", tmp_path)
    (tmp_path / "model-00003-of-00004.safetensors").write_bytes((tmp_path / "model-00001-of-00002.safetensors").read_bytes())
    for path in (tmp_path, tmp_path / "model.safetensors.index.json"):
        assert b"is read without model-00003-of-00004.safetensors" in run("ls", path).stderr
        assert run("verify", path).returncode == GOOD
        found = run("verify", "--strict", path)
        assert found.returncode == NO and b"model-00003-of-00004.safetensors" in found.stdout
    safetensors.numpy.save_file({}, tmp_path / "adapter_model.safetensors")
    assert b"is read without adapter_model.safetensors, model-00003-of-00004.safetensors, which lie beside it" in run("ls", tmp_path).stderr
    assert b"adapter" not in run("ls", tmp_path / "model.safetensors.index.json").stderr


def test_the_only_model_of_a_folder(tmp_path):
    safetensors.numpy.save_file({"a": np.ones(2)}, tmp_path / "adapter_model.safetensors")
    assert good("ls", tmp_path).startswith("a ")
    safetensors.numpy.save_file({"a": np.ones(2)}, tmp_path / "other.safetensors")
    assert "folder of several safetensors models" in bad(FAILURE, "ls", tmp_path)
    safetensors.numpy.save_file({"b": np.ones(2)}, tmp_path / "model.safetensors")
    assert run("ls", tmp_path, "--names").stdout == b"b\n"


def test_shards_without_their_index(tmp_path):
    save_set(tmp_path, 2)
    (tmp_path / "model.safetensors.index.json").unlink()
    message = bad(FAILURE, "ls", tmp_path)
    assert "holds shards of a safetensors model, but not the index" in message and "model-00002-of-00002.safetensors" in message
    good("ls", tmp_path / "model-00002-of-00002.safetensors")


def test_missing_shards_do_not_hide_the_others(tmp_path):
    save_set(tmp_path, 4)
    for i in (2, 4):
        (tmp_path / f"model-{i:05}-of-00004.safetensors").unlink()
    listed = run("ls", tmp_path)
    assert listed.returncode == FAILURE and listed.stdout.decode().split() == ["t1", "float32", "(4,)", "t2", "unreadable", "t3", "float32", "(4,)", "t4", "unreadable"]
    for i in (2, 4):
        assert f"model-{i:05}-of-00004.safetensors: the shard is missing; the index lists 1 tensor in it" in listed.stderr.decode()
    entries = json.loads(run("ls", "--json", tmp_path).stdout)
    assert [entry["name"] for entry in entries if "error" in entry] == ["t2", "t4"] and "the shard is missing" in entries[1]["error"]
    assert len(json.loads(run("info", "--json", tmp_path).stdout)["warnings"]) == 2
    assert run("cat", tmp_path, "t3").returncode == GOOD
    for arguments in (["cat", tmp_path, "t2"], ["convert", tmp_path, tmp_path / "out.npz"], ["stats", tmp_path], ["diff", tmp_path, tmp_path]):
        done = run(*arguments)
        assert done.returncode == FAILURE and b"model-00002-of-00004.safetensors: the shard is missing" in done.stderr, done
    assert not (tmp_path / "out.npz").exists()
    assert run("convert", tmp_path, tmp_path / "out.npz", "--include", "t1").returncode == GOOD
    report = run("verify", tmp_path)
    assert report.returncode == NO and report.stdout.count(b"DAMAGED") == 2 and b"2 chunks" in report.stdout


def test_missing_shards_are_left_out_if_allowed(tmp_path):
    model = tmp_path / "model"
    model.mkdir()
    save_set(model, 4)
    lost = model / "model-00002-of-00004.safetensors"
    lost.unlink()
    part = {"item": None, "path": str(lost), "record": str(model / "model.safetensors.index.json")}
    for options, names in ((["--allow-missing"], ["t1", "t3", "t4"]), ([], ["t1", "t2", "t3", "t4"])):
        done = run("ls", model, "--names", *options)
        assert done.stdout.decode().split() == names and str(lost).encode() in done.stderr
        assert done.returncode == (GOOD if options else FAILURE)
        (missing,) = json.loads(run("info", "--json", model, *options).stdout)["missing"]
        assert {key: missing[key] for key in part} == part and "the shard is missing" in missing["text"]
    assert run("convert", model, tmp_path / "x.npz").returncode == FAILURE and not (tmp_path / "x.npz").exists()
    done = run("convert", model, tmp_path / "x.npz", "--allow-missing", "--json")
    assert done.returncode == GOOD and lost.name in json.dumps(json.loads(done.stdout)["left_out"])
    assert run("ls", tmp_path / "x.npz", "--names").stdout.decode().split() == ["t1", "t3", "t4"]
    for shard in model.glob("*.safetensors"):
        shard.unlink()
    assert "nothing is left to read" in bad(FAILURE, "convert", model, tmp_path / "y.npz", "--allow-missing")
