"""safetensors files by the real package, read by Cairn; and the refusals of the reference, refused by Cairn."""

import json
import struct

import flax.serialization
import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.flax
import safetensors.numpy

import cairn_cli
import leaves
import random_trees
from test_convert import SAFETENSORS_TYPES


def tensors(seed=0):
    rng = np.random.default_rng(seed)
    named = {}
    for i, name in enumerate(SAFETENSORS_TYPES):
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        if name not in ("complex64", "float8_e8m0fnu"):  # safetensors' Python packages do not save these
            named[f"t.{name}"] = random_trees.random_values(rng, dtype, [(), (3,), (2, 5), (1, 2, 3)][i % 4])
    return named | {"empty": np.zeros((0, 3), np.float32), "ünï 漢字": np.arange(4), "": np.arange(2)}


@pytest.mark.covers("safetensors.numpy.save_file", "safetensors.numpy.load_file")
def test_every_type(scratch):
    named = tensors()
    safetensors.numpy.save_file(named, scratch / "a.safetensors", metadata={"format": "np", "ü": "é"})
    listed = {entry["name"]: entry for entry in cairn_cli.ls(scratch / "a.safetensors")}
    assert sorted(listed) == sorted(named)
    for name, array in named.items():
        assert listed[name]["dtype"] == array.dtype.name and listed[name]["shape"] == list(array.shape)
        cairn_cli.same_bytes(cairn_cli.cat(scratch / "a.safetensors", name), leaves.raw_bytes(array), listed[name])
    cairn_cli.verify(scratch / "a.safetensors")
    assert "é" in cairn_cli.run("info", scratch / "a.safetensors").stdout.decode()


def test_converted_again_is_identical(scratch):
    """Read and written again, the file is the same byte for byte: the reference's order and padding are kept."""
    safetensors.numpy.save_file(tensors(), scratch / "a.safetensors")
    cairn_cli.run("convert", scratch / "a.safetensors", scratch / "b.safetensors")
    assert (scratch / "a.safetensors").read_bytes() == (scratch / "b.safetensors").read_bytes()


def craft(header, data=b"\0" * 16, length=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def entry(dtype="F32", shape=(4,), begin=0, end=16):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [begin, end]}


BAD = {
    "empty file": b"", "short length": b"\1\2\3", "length past end": craft({"a": entry()}, length=5000), "huge length": craft({}, length=2**63), "header too large": craft({}, length=100_000_001),
    "not json": craft(b"{'a'}"), "not an object": craft([1]), "not utf-8": craft(b'{"\xff":1}'), "no brace": craft(b'\x0b{}', b""), "only spaces": craft(b"        ", b""),
    "unknown dtype": craft({"a": entry("F33")}), "dtype missing": craft({"a": {"shape": [4], "data_offsets": [0, 16]}}), "negative shape": craft({"a": entry(shape=(-4,))}),
    "shape overflow": craft({"a": entry(shape=(2**62, 2**62))}), "size mismatch": craft({"a": entry(shape=(5,))}), "offsets reversed": craft({"a": entry(begin=16, end=0)}),
    "offsets past end": craft({"a": entry(end=20, shape=(5,))}), "hole": craft({"a": entry(shape=(1,), end=4), "b": entry(shape=(2,), begin=8, end=16)}),
    "overlap": craft({"a": entry(shape=(3,), end=12), "b": entry(shape=(2,), begin=8, end=16)}), "trailing bytes": craft({"a": entry()}, data=b"\0" * 17), "missing bytes": craft({"a": entry()}, data=b"\0" * 15),
    "hole at start": craft({"a": entry(shape=(3,), begin=4, end=16)}), "metadata not strings": craft({"__metadata__": {"a": 1}, "b": entry()}),
    "duplicate names": craft(b'{"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]},"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}'),
}


@pytest.mark.covers("safetensors.numpy.load_file")
@pytest.mark.parametrize("name", BAD)
def test_damaged_headers_are_refused(scratch, name):
    file = scratch / "bad.safetensors"
    file.write_bytes(BAD[name])
    try:
        with safetensors.safe_open(file, "np") as opened:
            accepted = list(opened.keys())
    except (safetensors.SafetensorError, OSError):
        accepted = None
    assert accepted is None or name in ("duplicate names",), "the reference accepts this; the table is wrong"
    cairn_cli.run("ls", file, status=cairn_cli.IO)


@pytest.mark.covers(
    "safetensors.numpy.load_file",
    note="A set of files with an index opens as one checkpoint.",
)
def test_sharded_set(scratch):
    parts = [{"a": np.arange(5.0), "b": np.ones((2, 2), np.int8)}, {"c": np.arange(7, dtype=np.uint16)}]
    weight_map = {}
    for i, part in enumerate(parts):
        file = f"model-{i + 1:05}-of-00002.safetensors"
        safetensors.numpy.save_file(part, scratch / file)
        weight_map |= dict.fromkeys(part, file)
    index = scratch / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 58}, "weight_map": weight_map}))
    for part in parts:
        for name, array in part.items():
            assert cairn_cli.cat(index, name) == array.tobytes()
    (scratch / "model-00002-of-00002.safetensors").unlink()
    message = cairn_cli.run("ls", index, status=cairn_cli.IO).stderr.decode()
    assert "model-00002-of-00002" in message


@pytest.mark.parametrize("before", [" ", "\n\n", "\t\r\n ", " " * 5000], ids=["space", "lines", "mixed", "long"])
@pytest.mark.parametrize("after", ["", "\n\t\r "], ids=["tight", "spaces after"])
def test_white_space_around_the_header(scratch, before, after):
    """The reference reads such files, and so does Cairn, whatever their name."""
    data = craft((before + json.dumps({"a": entry()}) + after).encode(), np.arange(4, dtype=np.float32).tobytes())
    assert safetensors.numpy.load(data)["a"].tolist() == [0, 1, 2, 3]
    names = ["a.safetensors"] + (["a.bin"] if len(before) < 4000 else [])
    for name in names:
        (scratch / name).write_bytes(data)
        assert cairn_cli.cat(scratch / name, "a") == np.arange(4, dtype=np.float32).tobytes()
        cairn_cli.verify(scratch / name)


def test_an_odd_number_of_half_bytes_is_skipped_on_request(scratch):
    tree = {"odd": np.zeros(3, ml_dtypes.float4_e2m1fn), "even": np.zeros(4, ml_dtypes.float4_e2m1fn)}
    (scratch / "a.msgpack").write_bytes(flax.serialization.msgpack_serialize(tree))
    refused = cairn_cli.run("convert", scratch / "a.msgpack", scratch / "a.safetensors", status=cairn_cli.USAGE)
    assert b"odd (an odd number of elements of type float4_e2m1fn" in refused.stderr
    done = cairn_cli.run("convert", "--skip-unsupported", scratch / "a.msgpack", scratch / "a.safetensors")
    assert b"odd" in done.stdout + done.stderr
    assert [entry["name"] for entry in cairn_cli.ls(scratch / "a.safetensors")] == ["even"]
