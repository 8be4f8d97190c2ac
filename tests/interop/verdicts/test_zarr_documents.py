"""Every member of the metadata of small Zarr arrays is mutated, and read by zarr-python, TensorStore and Cairn.

An array is good if one of the two reads it. Forms of types, fill values and codecs have rows of their own.
"""

import json

import numcodecs
import numpy as np
import pytest
import tensorstore as ts
import zarr

import mutations
import verdicts

FLOATS = np.arange(6, dtype="<f4").reshape(2, 3)


def by_zarr(path):
    return zarr.open_array(str(path), mode="r")[...]


def by_tensorstore(path):
    driver = "zarr" if (path / ".zarray").exists() else "zarr3"
    return ts.open({"driver": driver, "kvstore": {"driver": "file", "path": f"{path}/"}}).result().read().result()


def make2(values, **options):
    def save(path):
        array = zarr.create_array(str(path), shape=values.shape, chunks=options.pop("chunks", values.shape), dtype=values.dtype, zarr_format=2, **options)
        array[...] = values

    return save


def make3(values, **options):
    def save(path):
        array = zarr.create_array(str(path), shape=values.shape, chunks=options.pop("chunks", values.shape), dtype=values.dtype, zarr_format=3, **options)
        array[...] = values

    return save


def member_rows(member, values):
    """Rows that give one member other values, as text of JSON."""

    def rows(content):
        for value in values:
            document = mutations.parse(content)
            i = [name for name, _ in document].index(member)
            document[i] = (member, mutations.Raw(value))
            yield f"{member}: {value}", mutations.dump(document).encode()

    return rows


def texts(*values):
    return [json.dumps(value) for value in values]


TYPES2 = texts("<f4", ">f4", "f4", "|f4", "=f4", "<f2", "<i4", "<u4", "<f8", "|S4", "|V4", "<U1", "<M8[s]", "<M8", "|O", "|b1", "|b4", "float32", "bfloat16", "<f3",
               [["a", "<f4"]], [["a", "<i2"], ["b", "<i2"]], [["a", "<f4", [2]]], [], [["a"]], "<f16", "<c8", "<m8[ns]", "<M8[parsec]", "|u4", "|i1", "int4", "", "f", "<")
TYPES3 = texts("float32", "int32", "uint32", "Float32", "float", "r32", "r33", "complex64", "bytes", "string", "int4", "float8_e5m2", {"name": "float32"},
               {"name": "float32", "configuration": {}}, {"name": "null_terminated_bytes", "configuration": {"length_bytes": 4}}, {"name": "numpy.datetime64"}, "<f4")
FILLS = texts(0, 1, -1, 0.0, 1.5, 1e300, True, None, "NaN", "Infinity", "-Infinity", "nan", "inf", "0", "1.5", "", "0x7fc00000", "0x7fc0000", "0X7FC00000", "AAAA", "AAAAAA==", [0], [0, 0], {}, 2**31, 2**64)
COMPRESSORS = texts({"id": "zstd"}, {"id": "zstd", "level": 30}, {"id": "zstd", "level": 1, "checksum": True}, {"id": "zstd", "level": 1, "checksum": 1}, {"id": "Zstd"},
                    {"id": "zlib"}, {"id": "lzma"}, {"id": "nothing"}, {"level": 1}, {"id": None}, {"id": "blosc"}, {"id": "zstd", "window": 1}, "zstd", [], 7)
SHUFFLED = texts({"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}, {"id": "blosc", "cname": "lz5", "clevel": 5, "shuffle": 1, "blocksize": 0},
                 {"id": "blosc", "cname": "lz4", "clevel": 10, "shuffle": 1, "blocksize": 0}, {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 3, "blocksize": 0},
                 {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": -1, "blocksize": 0}, {"id": "blosc", "cname": "lz4"}, {"id": "blosc", "clevel": 5})
FILTERS = texts([], [{"id": "delta", "dtype": "<f4"}], [{"id": "delta", "dtype": "<f5"}], [{"id": "nothing"}], [{}], [None], {}, "text", 7, [{"id": "zlib", "level": 1}])
SEPARATORS = texts(".", "/", "", "-", "..", None)
VERSIONS = texts(1, 2, 3, 4, "2", "3", 2.0, None)
CODECS3 = texts([], [{"name": "bytes"}], ["bytes"], [{"name": "bytes", "configuration": {"endian": "big"}}], [{"name": "bytes", "configuration": {"endian": "middle"}}],
                [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "nothing"}],
                [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "nothing", "must_understand": False}],
                [{"name": "transpose", "configuration": {"order": [1, 0]}}, {"name": "bytes", "configuration": {"endian": "little"}}],
                [{"name": "transpose", "configuration": {"order": [0, 0]}}, {"name": "bytes", "configuration": {"endian": "little"}}],
                [{"name": "transpose", "configuration": {"order": "C"}}, {"name": "bytes", "configuration": {"endian": "little"}}],
                [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "bytes", "configuration": {"endian": "little"}}],
                [{"name": "crc32c"}, {"name": "bytes", "configuration": {"endian": "little"}}], [{"name": "endian", "configuration": {"endian": "little"}}])
KEYS3 = texts({"name": "default"}, "default", {"name": "v2"}, {"name": "v2", "configuration": {"separator": "/"}}, {"name": "default", "separator": "/"}, {"name": "other"},
              {"name": "default", "configuration": {"separator": "-"}}, {"name": "default", "configuration": {"separator": "."}})
GRIDS3 = texts({"name": "regular", "configuration": {"chunk_shape": [2]}}, {"name": "regular", "configuration": {"chunk_shape": [0, 3]}}, {"name": "rectangular"},
               {"name": "regular", "configuration": {"chunk_shape": [2.0, 3]}}, {"name": "regular", "configuration": {"chunk_shape": ["2", 3]}}, {"name": "regular"}, "regular")
TRANSFORMERS = texts([], [{"name": "x"}], None, {}, "x")
NAMES = texts(["a", "b"], ["a", None], ["a", "a"], ["a"], None, [1, 2], "ab", [])


def v2_forms(content):
    for member, values in (("dtype", TYPES2), ("fill_value", FILLS), ("compressor", COMPRESSORS), ("filters", FILTERS), ("dimension_separator", SEPARATORS), ("zarr_format", VERSIONS)):
        yield from member_rows(member, values)(content)


def v3_forms(content):
    for member, values in (("data_type", TYPES3), ("fill_value", FILLS), ("codecs", CODECS3), ("chunk_key_encoding", KEYS3), ("chunk_grid", GRIDS3),
                           ("storage_transformers", TRANSFORMERS), ("dimension_names", NAMES), ("zarr_format", VERSIONS)):
        if f'"{member}"'.encode() in content:
            yield from member_rows(member, values)(content)


def with_separator(content):
    document = json.loads(content)
    return json.dumps({**document, "dimension_separator": "."}).encode()


def everything(forms):
    def rows(content):
        yield from mutations.of_document(content)
        yield from forms(content)

    return rows


ARRAYS = {
    "v2": (make2(FLOATS, compressors=numcodecs.Zstd(level=1)), ".zarray", everything(v2_forms)),
    "v2 blosc": (make2(FLOATS, compressors=numcodecs.Blosc()), ".zarray", member_rows("compressor", SHUFFLED)),
    "v2 raw int": (make2(FLOATS.astype("<i4"), compressors=None, fill_value=3, chunks=(2, 2)), ".zarray", member_rows("fill_value", FILLS)),
    "v2 bool": (make2(FLOATS > 2, compressors=None), ".zarray", member_rows("fill_value", FILLS)),
    "v2 complex": (make2(FLOATS.astype("<c8"), compressors=None), ".zarray", member_rows("fill_value", FILLS)),
    "v2 strings": (make2(np.array(["ab", "c"], "<U2"), compressors=None), ".zarray", member_rows("fill_value", FILLS)),
    "v2 times": (make2(np.array([1, 2], "<M8[s]"), compressors=None), ".zarray", member_rows("fill_value", FILLS)),
    "v3": (make3(FLOATS), "zarr.json", everything(v3_forms)),
    "v3 raw int": (make3(FLOATS.astype("<i4"), compressors=None, fill_value=3, chunks=(2, 2)), "zarr.json", member_rows("fill_value", FILLS)),
    "v3 bool": (make3(FLOATS > 2, compressors=None), "zarr.json", member_rows("fill_value", FILLS)),
    "v3 complex": (make3(FLOATS.astype("<c8"), compressors=None), "zarr.json", member_rows("fill_value", FILLS)),
}


# Where `verify` says "damaged", and one of the two readers reads the array.
STRICTER = [
    ("restored", "twice, null first", "a repeated member: its first value is not valid"),
    ("restored", "UTF-16", "JSON files are UTF-8 (RFC 8259)"),
    ("restored", "NUL behind", "TensorStore takes a NUL for the end"),
    ("restored", "1e400", "the number is beyond every double"),
    ("restored", "^fill_value: (true|\"|\\[|{)", "zarr-python converts text and truth values as Python does: 'false' is true, and '0x7fc0000' is base64"),
    ("restored", "^filters: {}", "zarr-python takes everything empty for null"),
    ("restored", r"^codecs\.0\.configuration", "without a byte order, zarr-python takes that of its machine"),
]


@pytest.mark.parametrize("name", ARRAYS)
def test_verdicts(name, scratch):
    save, file, rows = ARRAYS[name]
    save(scratch / "a")
    document = scratch / "a" / file
    if file == ".zarray":
        document.write_bytes(with_separator(document.read_bytes()))
    verdicts.Table(scratch / "a", document, [by_zarr, by_tensorstore], rows(document.read_bytes())).check(STRICTER, 7)
