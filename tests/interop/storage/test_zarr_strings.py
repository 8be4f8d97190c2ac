"""Strings and byte strings of any length, as zarr-python writes them: Cairn reads what zarr-python reads, and refuses what it refuses."""

import json
import struct

import numpy as np
import pytest
import tensorflow as tf
import zarr

import cairn_cli

WORDS = np.array([["a", "", "c\u00e7c", "d"], ["\u00e9", "ff", "\x00g\n", "\U0001f600" * 3], ["1", "22", "'3'", "x" * 5000]], dtype=object)
BYTES = np.array([b"a", b"", b"\xff\x00", b"x" * 300, b"'"], dtype=object)
VLEN_BYTES = zarr.dtype.VariableLengthBytes()


def group_of(path, zarr_format):
    """A group with an array for each layout; of `filled`, one chunk is stored."""
    group = zarr.open_group(path, mode="w", zarr_format=zarr_format)

    def add(name, data, chunks, dtype="string", **options):
        group.create_array(name, shape=data.shape, chunks=chunks, dtype=dtype, **options)[...] = data

    add("raw", WORDS, (2, 3), compressors=None)
    add("packed", WORDS, (2, 3))
    add("whole", WORDS, WORDS.shape)
    add("line", WORDS.ravel(), (5,), fill_value="other")
    add("deep", np.resize(WORDS, (3, 2, 5, 2)), (2, 2, 2, 1))
    add("none", WORDS[:0], (1, 2))
    add("scalar", np.array("d\u00e9f", dtype=object), ())
    add("bytes", BYTES, (2,), VLEN_BYTES)
    group.create_array("filled", shape=(5, 4), chunks=(2, 3), dtype="string", fill_value="n\u00f6")[2:4, :3] = WORDS[:2, 1:]
    group.create_array("filled_bytes", shape=(5,), chunks=(2,), dtype=VLEN_BYTES, fill_value=b"\x00\xfe")[2:4] = BYTES[:2]
    group.create_array("absent", shape=(5,), chunks=(2,), dtype="string")
    if zarr_format == 2:
        import numcodecs

        add("fortran", WORDS, (2, 3), order="F")
        add("checked", WORDS, (2, 3), filters=[numcodecs.VLenUTF8(), numcodecs.CRC32()], compressors=numcodecs.Zlib())
    else:
        add("transposed", WORDS, (2, 3), filters=[zarr.codecs.TransposeCodec(order=(1, 0))])
        add("sharded", WORDS, (1, 2), shards=(2, 4))
        add("checked", WORDS, (2, 3), compressors=[zarr.codecs.GzipCodec(), zarr.codecs.Crc32cCodec()])
        group.create_array("filled_shards", shape=(4, 4), chunks=(1, 2), shards=(2, 4), dtype="string", fill_value="n\u00f6")[1, 2:] = WORDS[0, 2:]
    return group


def as_bytes(array):
    flat = np.array(array, dtype=object).ravel().tolist()
    return [value if isinstance(value, bytes) else value.encode() for value in flat]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_every_layout_is_read(scratch, zarr_format):
    group = group_of(scratch / "z", zarr_format)
    listed = {entry["name"]: entry for entry in cairn_cli.ls(scratch / "z")}
    assert sorted(listed) == sorted(name for name, _ in group.arrays())
    assert cairn_cli.verify(scratch / "z")["findings"] == []
    cairn_cli.run("convert", "--to", "tensorflow", "--names", "--no-latest", scratch / "z", scratch / "tf")
    reader = tf.train.load_checkpoint(str(scratch / "tf"))
    for name, array in group.arrays():
        assert (listed[name]["kind"], listed[name]["dtype"]) == ("string", "bytes" if "bytes" in name else "string")
        assert listed[name]["shape"] == (list(array.shape) or None)
        assert listed[name]["nbytes"] == listed[name]["stored_nbytes"]
        got = reader.get_tensor(name)
        assert as_bytes(got) == as_bytes(array[...]), name
        assert np.shape(got) == array.shape


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_they_are_shown_and_compared(scratch, zarr_format):
    group = group_of(scratch / "a", zarr_format)
    other = group_of(scratch / "b", zarr_format)
    assert cairn_cli.run("cat", scratch / "a", "scalar").stdout.decode() == "d\u00e9f\n"
    assert cairn_cli.cat(scratch / "a", "scalar") == "d\u00e9f".encode()
    shown = cairn_cli.run("cat", scratch / "a", "line").stdout.decode()
    assert shown.startswith("['a',\n '',\n 'c\u00e7c',") and " '\\'3\\''," in shown
    assert "strings (3, 4)" in cairn_cli.run("tree", scratch / "a").stdout.decode()
    cairn_cli.run("info", scratch / "a")
    cairn_cli.run("stats", scratch / "a")
    cairn_cli.run("diff", scratch / "a", scratch / "b")
    other["packed"][1, 2] = "changed"
    assert group["packed"][1, 2] != "changed"
    report = json.loads(cairn_cli.run("diff", "--json", scratch / "a", scratch / "b", status=cairn_cli.NO).stdout)
    assert [leaf["name"] for leaf in report["leaves"] if leaf["state"] == "different"] == ["packed"]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_formats_without_arrays_of_strings_refuse_them(scratch, zarr_format):
    group_of(scratch / "z", zarr_format)
    for format in ("safetensors", "npz", "msgpack", "orbax", "orbax-zarr3", "orbax-files"):
        with pytest.raises(cairn_cli.Failed, match=r"cannot hold \d+ leaves: .*packed.*an array of strings"):
            cairn_cli.run("convert", "--to", format, scratch / "z", scratch / "out")
        assert not (scratch / "out").exists()
    with pytest.raises(cairn_cli.Failed, match="an array of strings cannot be written as bytes"):
        cairn_cli.cat(scratch / "z", "line")
    with pytest.raises(cairn_cli.Failed, match="is not an array, so it has no slices"):
        cairn_cli.run("cat", "--slice", "0:2", scratch / "z", "line")
    for format in ("msgpack", "orbax"):
        cairn_cli.run("convert", "--to", format, "--include", "scalar", scratch / "z", scratch / format)
        assert cairn_cli.cat(scratch / format, "scalar") == "d\u00e9f".encode()
    zarr.create_array(scratch / "b", shape=(), dtype=VLEN_BYTES, zarr_format=zarr_format)[...] = b"\xff"
    with pytest.raises(cairn_cli.Failed, match="a string of bytes"):
        cairn_cli.run("convert", "--to", "orbax", scratch / "b", scratch / "out")


def chunk_of(*elements):
    return struct.pack("<I", len(elements)) + b"".join(struct.pack("<I", len(element)) + element for element in elements)


GOOD = chunk_of(b"ab", "\u00e9".encode(), b"c")
DAMAGE = {
    "empty": (b"", "unexpected end of data"), "cut": (GOOD[:-1], "unexpected end of data"), "count only": (GOOD[:4], "unexpected end of data"),
    "more elements": (chunk_of(b"a", b"b", b"c", b"d"), "chunk holds 4 elements, expected 3"), "fewer elements": (chunk_of(b"a", b"b"), "chunk holds 2 elements, expected 3"),
    "claims more": (struct.pack("<I", 5) + GOOD[4:], "chunk holds 5 elements, expected 3"), "long": (struct.pack("<II", 3, 0xFFFFFFFF) + b"abc", "4294967295 bytes wanted"),
    "no UTF-8": (chunk_of(b"a", b"\xff", b"c"), "element 1 is not UTF-8"), "surrogate": (chunk_of(b"a", b"\xed\xa0\x80", b"c"), "element 1 is not UTF-8"),
}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("name", DAMAGE)
def test_damage_is_refused_by_both(scratch, name, zarr_format):
    zarr.create_array(scratch / "a", shape=(3,), chunks=(3,), dtype="string", zarr_format=zarr_format, compressors=None)[...] = np.array(["ab", "\u00e9", "c"], dtype=object)
    chunk = scratch / "a" / ("0" if zarr_format == 2 else "c/0")
    assert chunk.read_bytes() == GOOD
    bad, words = DAMAGE[name]
    chunk.write_bytes(bad)
    with pytest.raises(ValueError):
        zarr.open_array(scratch / "a")[...]
    with pytest.raises(cairn_cli.Failed, match=words):
        cairn_cli.run("cat", scratch / "a", cairn_cli.ls(scratch / "a")[0]["name"])
    (finding,) = cairn_cli.verify(scratch / "a", status=cairn_cli.NO)["findings"]
    assert words in finding["message"]


FILLS = [("string", fill) for fill in ("", "d\u00e9", 0, -7, None, [], {})] + [("bytes", fill) for fill in ("", "/wA=", "YWI", 0, None, "d\u00e9", {})]


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("kind, fill", FILLS, ids=repr)
def test_fill_values(scratch, kind, fill, zarr_format):
    dtype, value = ("string", "x") if kind == "string" else (VLEN_BYTES, b"x")
    zarr.create_array(scratch / "g" / "a", shape=(2,), chunks=(1,), dtype=dtype, zarr_format=zarr_format)[:1] = np.array([value], dtype=object)
    file = scratch / "g" / "a" / ("zarr.json" if zarr_format == 3 else ".zarray")
    file.write_text(json.dumps(json.loads(file.read_text()) | {"fill_value": fill}))
    try:
        want = as_bytes(zarr.open_array(scratch / "g" / "a")[...])
    except Exception:
        if fill == "YWI":  # Cairn needs no padding
            return
        assert b": fill_value " in cairn_cli.run("ls", scratch / "g", status=cairn_cli.IO).stderr
        return
    cairn_cli.run("convert", "--to", "tensorflow", "--names", "--no-latest", scratch / "g", scratch / "tf")
    assert as_bytes(tf.train.load_checkpoint(str(scratch / "tf")).get_tensor("a")) == want
