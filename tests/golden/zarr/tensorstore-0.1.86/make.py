"""Writes cases.json with TensorStore 0.1.86: every element type in both formats, every codec, layout and key encoding.

    python make.py        (tensorstore==0.1.86, ml_dtypes, numpy)
"""

import base64
import os
import sys
import tempfile

import ml_dtypes
import numpy as np
import tensorstore as ts

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from golden import Cases  # noqa: E402

cases = Cases()

INTS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
SMALL_FLOATS = [
    "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e4m3b11fnuz", "float8_e3m4",
    "float8_e8m0fnu", "float4_e2m1fn",
]
V2 = {
    "bool": "|b1", "int8": "|i1", "uint8": "|u1", "int16": "<i2", "uint16": "<u2", "int32": "<i4", "uint32": "<u4",
    "int64": "<i8", "uint64": "<u8", "float16": "<f2", "float32": "<f4", "float64": "<f8", "complex64": "<c8",
    "complex128": "<c16",
}


def numpy_type(name):
    return np.dtype(getattr(ml_dtypes, name)) if hasattr(ml_dtypes, name) else np.dtype(name)


def values(name, shape):
    """Every bit pattern that fits, spread over the array; NaN payloads included."""
    dtype = numpy_type(name)
    count = int(np.prod(shape))
    random = np.random.default_rng(len(name) * 1000 + count)
    if name == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if name in ("int4", "int2"):
        low = -8 if name == "int4" else -2
        return random.integers(low, -low, shape).astype(dtype)
    raw = random.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    if name == "float4_e2m1fn":
        raw &= 15
    return raw.view(dtype).reshape(shape)


def create(driver, path, metadata, data, kvstore=None, **spec):
    array = ts.open(
        {"driver": driver, "kvstore": {"driver": "file", "path": path + "/"}, "metadata": metadata,
         "store_data_equal_to_fill_value": True, **spec},
        create=True, delete_existing=True,
    ).result()
    if data is not None:
        array.write(data).result()
    return array


def v2(name, dtype, data, *, chunks=None, typestr=None, **members):
    typestr = typestr or V2.get(dtype, dtype)
    metadata = {
        "zarr_format": 2, "shape": list(data.shape), "chunks": list(chunks or data.shape), "dtype": typestr,
        "compressor": None, "fill_value": None, "order": "C", "filters": None, **members,
    }
    cases.add("v2 " + name, lambda path: create("zarr", path, metadata, data), dtype, data)


def v3(name, dtype, data, *, chunks=None, codecs=None, **members):
    metadata = {
        "zarr_format": 3, "node_type": "array", "shape": list(data.shape), "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": list(chunks or data.shape)}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": members.pop("fill_value", False if dtype == "bool" else [0, 0] if
                                                                             dtype.startswith("complex") else 0), **members,
    }
    if codecs is not None:
        metadata["codecs"] = codecs
    cases.add("v3 " + name, lambda path: create("zarr3", path, metadata, data), dtype, data)


LITTLE = {"name": "bytes", "configuration": {"endian": "little"}}
BIG = {"name": "bytes", "configuration": {"endian": "big"}}
ZSTD = {"name": "zstd", "configuration": {"level": 1}}
CRC = {"name": "crc32c"}


def sharding(chunk_shape, codecs=None, **more):
    return {"name": "sharding_indexed", "configuration": {"chunk_shape": chunk_shape, "codecs": codecs or [LITTLE], **more}}


# Every element type: two chunk layouts, with an edge; raw and compressed.
for dtype in ["bool", *INTS, *FLOATS, "complex64", "complex128", "int4", "int2", *SMALL_FLOATS]:
    data = values(dtype, (5, 3))
    v2(f"{dtype} raw", dtype, data)
    v2(f"{dtype} zstd chunks", dtype, data, chunks=(2, 2), compressor={"id": "zstd", "level": 1})
    v3(f"{dtype} raw", dtype, data)
    v3(f"{dtype} zstd chunks", dtype, data, chunks=(2, 2), codecs=[LITTLE, ZSTD])
    v3(f"{dtype} orbax", dtype, data, codecs=[sharding([5, 3], [LITTLE, {"name": "zstd", "configuration": {"level": 3}}])])
    v3(f"{dtype} orbax raw", dtype, data, codecs=[sharding([5, 3])])
for dtype in ["int16", "uint32", "int64", "float16", "float32", "float64", "complex64", "complex128"]:
    data = values(dtype, (5, 3))
    v2(f"{dtype} big-endian", dtype, data, chunks=(2, 2), typestr=">" + V2[dtype][1:])
    v2(f"{dtype} big-endian gzip F", dtype, data, typestr=">" + V2[dtype][1:], compressor={"id": "gzip", "level": 1}, order="F")
    v3(f"{dtype} big-endian", dtype, data, chunks=(2, 2), codecs=[BIG])

# Codecs.
data = np.arange(7 * 6 * 5, dtype=np.int32).reshape(7, 6, 5) // 3
for codec in ["zstd", "gzip", "zlib", "bz2"]:
    v2(f"codec {codec}", "int32", data, chunks=(4, 3, 5), compressor={"id": codec, "level": 2})
for cname in ["lz4", "lz4hc", "blosclz", "zlib", "zstd"]:
    for shuffle in (-1, 0, 1, 2):
        v2(f"codec blosc {cname} {shuffle}", "int32", data, chunks=(4, 3, 5),
           compressor={"id": "blosc", "cname": cname, "clevel": 5, "shuffle": shuffle, "blocksize": 0})
for name, codecs in {
    "gzip": [LITTLE, {"name": "gzip", "configuration": {"level": 6}}],
    "blosc": [LITTLE, {"name": "blosc", "configuration": {"cname": "lz4", "clevel": 5, "shuffle": "shuffle", "typesize": 4, "blocksize": 0}}],
    "crc32c": [LITTLE, CRC],
    "zstd crc32c": [LITTLE, ZSTD, CRC],
    "crc32c zstd": [LITTLE, CRC, ZSTD],
    "gzip zstd": [LITTLE, {"name": "gzip", "configuration": {"level": 6}}, ZSTD],
    "zstd checksum": [LITTLE, {"name": "zstd", "configuration": {"level": 1, "checksum": True}}],
    "transpose": [{"name": "transpose", "configuration": {"order": [2, 0, 1]}}, LITTLE],
    "transpose twice": [{"name": "transpose", "configuration": {"order": [2, 0, 1]}},
                        {"name": "transpose", "configuration": {"order": [1, 0, 2]}}, BIG, ZSTD],
}.items():
    v3(f"codec {name}", "int32", data, chunks=(4, 3, 5), codecs=codecs)

# Layouts: order, keys, rank 0, chunks beyond the array, many dimensions.
for order in "CF":
    for separator in "./":
        v2(f"layout {order} {separator}", "int32", data, chunks=(2, 6, 3), order=order, dimension_separator=separator)
for encoding in ["default", "v2"]:
    for separator in "./":
        v3(f"layout {encoding} {separator}", "int32", data, chunks=(2, 6, 3),
           chunk_key_encoding={"name": encoding, "configuration": {"separator": separator}})
scalar = np.array(-5, np.int16)
v2("rank 0", "int16", scalar)
v2("rank 0 zstd", "int16", scalar, compressor={"id": "zstd", "level": 1}, dimension_separator="/")
v3("rank 0", "int16", scalar)
v3("rank 0 v2 keys", "int16", scalar, chunk_key_encoding={"name": "v2"})
v3("rank 0 shard", "int16", scalar, codecs=[sharding([])])
v2("chunk beyond", "int32", data, chunks=(16, 2, 8))
v3("chunk beyond", "int32", data, chunks=(16, 2, 8))
v2("empty", "float32", np.zeros((0, 3), np.float32), chunks=(2, 3))
v2("rank 6", "uint8", np.arange(144, dtype=np.uint8).reshape(1, 2, 3, 2, 3, 4), chunks=(1, 1, 2, 2, 3, 3), order="F")

# Shards.
data = np.arange(8 * 12, dtype=np.uint16).reshape(8, 12)
for name, chunks, codec in [
    ("end", (4, 6), sharding([2, 3])),
    ("start", (4, 6), sharding([2, 3], index_location="start")),
    ("whole", (8, 12), sharding([2, 3], [LITTLE, ZSTD])),
    ("edge", (3, 5), sharding([3, 5], [LITTLE, CRC])),
    ("index without checksum", (4, 6), sharding([2, 3], index_codecs=[LITTLE])),
    ("index big-endian", (4, 6), sharding([2, 3], index_codecs=[BIG, CRC])),
    ("nested", (8, 12), sharding([4, 6], [sharding([2, 3], [BIG, ZSTD], index_location="start")])),
    ("inner transpose", (4, 6), sharding([2, 3], [{"name": "transpose", "configuration": {"order": [1, 0]}}, LITTLE])),
]:
    v3(f"shard {name}", "uint16", data, chunks=chunks, codecs=[codec])
v3("shard after transpose", "uint16", data, chunks=(4, 6),
   codecs=[{"name": "transpose", "configuration": {"order": [1, 0]}}, sharding([3, 2])])
v3("shard edge partly outside", "uint16", data[:7, :11], chunks=(4, 6), codecs=[sharding([2, 3], [LITTLE, ZSTD])])


# Chunks that were never written read as the fill value.
def partly(driver, metadata, region, data):
    def write(path):
        array = create(driver, path, metadata, None)
        array[region].write(data[region]).result()

    return write


def fill_case(name, dtype, typestr, data_type, fill2, fill3, bits):
    element = np.frombuffer(bits, numpy_type(dtype))[0]
    data = np.full((6, 4), element, numpy_type(dtype))
    part = (slice(0, 3), slice(0, 2))
    data[part] = values(dtype, (3, 2))
    if fill2 is not None:
        metadata = {"zarr_format": 2, "shape": [6, 4], "chunks": [3, 2], "dtype": typestr, "compressor": None,
                    "fill_value": fill2, "order": "C", "filters": None}
        # What is stored may say less than what was asked for: the NaN that -Infinity becomes is written as "NaN".
        with tempfile.TemporaryDirectory() as folder:
            partly("zarr", metadata, part, data)(folder + "/a")
            again = ts.open({"driver": "zarr", "kvstore": {"driver": "file", "path": folder + "/a/"}}).result().read().result()
        cases.add(f"v2 fill {name}", partly("zarr", metadata, part, data), dtype, again, fill=True)
    for codecs, what in (([LITTLE], ""), ([sharding([3, 1])], " shard")):
        metadata = {"zarr_format": 3, "node_type": "array", "shape": [6, 4], "data_type": data_type,
                    "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [3, 4 if what else 2]}},
                    "chunk_key_encoding": {"name": "default"}, "fill_value": fill3, "codecs": codecs}
        cases.add(f"v3 fill {name}{what}", partly("zarr3", metadata, part, data), dtype, data, fill=True)


def bits_of(value, dtype):
    return np.array(value, numpy_type(dtype)).tobytes()


for name, dtype, typestr, fill2, fill3, bits in [
    ("int", "int32", "<i4", -7, -7, bits_of(-7, "int32")),
    ("int as float", "int32", ">i4", 5.0, 5.0, bits_of(5, "int32")),
    ("uint64", "uint64", "<u8", 18446744073709551615, 18446744073709551615, b"\xff" * 8),
    ("int4", "int4", "int4", -8, -8, b"\xf8"),
    ("bool", "bool", "|b1", True, True, b"\x01"),
    ("float", "float32", "<f4", 0.1, 0.1, bits_of(0.1, "float32")),
    ("float NaN", "float32", "<f4", "NaN", "NaN", bytes.fromhex("0000c07f")),
    ("float Infinity", "float64", ">f8", "-Infinity", "-Infinity", bits_of(-np.inf, "float64")),
    ("float text", "float64", "<f8", "1.5", 1.5, bits_of(1.5, "float64")),
    ("float hex", "float32", None, None, "0x7fc00001", bytes.fromhex("0100c07f")),
    ("bfloat16", "bfloat16", "bfloat16", 1.5, 1.5, bits_of(1.5, "bfloat16")),
    ("bfloat16 NaN", "bfloat16", "bfloat16", "NaN", "NaN", bytes.fromhex("c07f")),
    ("complex", "complex64", "<c8", [1.0, "NaN"], [1.0, "NaN"], bytes.fromhex("0000803f0000c07f")),
    ("complex base64", "complex64", ">c8", "P4AAAEAAAAA=", [1.0, 2.0], bits_of(1 + 2j, "complex64")),
]:
    fill_case(name, dtype, typestr, dtype, fill2, fill3, bits)


def probe(dtype, fill):
    """What TensorStore makes of a fill value."""
    metadata = {"zarr_format": 3, "node_type": "array", "shape": [1], "data_type": dtype,
                "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [1]}},
                "chunk_key_encoding": {"name": "default"}, "fill_value": fill}
    array = ts.open({"driver": "zarr3", "kvstore": "memory://", "metadata": metadata}, create=True).result()
    return array.read().result().tobytes()


for dtype, nan in [("float16", "007e"), ("float8_e5m2", "7e"), ("float8_e4m3fn", "7f"), ("float8_e3m4", "78"), ("float8_e4m3fnuz", "80"),
                   ("float8_e5m2fnuz", "80"), ("float8_e4m3b11fnuz", "80"), ("float8_e8m0fnu", "ff")]:
    fill_case(f"{dtype} NaN", dtype, V2.get(dtype, dtype), dtype, "NaN", "NaN", bytes.fromhex(nan))
# TensorStore reads and writes fill values of float8_e8m0fnu with an exponent bias of 63, though the type's own is 127.
for dtype in ["float16", "bfloat16", *SMALL_FLOATS]:
    for fill in ["Infinity", "-Infinity", 0.0, 1.0, -3.0, 1e30]:
        bits = probe(dtype, fill)
        fill2 = base64.b64encode(bits).decode() if dtype == "float4_e2m1fn" else fill
        fill_case(f"{dtype} {fill}", dtype, V2.get(dtype, dtype), dtype, fill2, fill, bits)
fill_case("float4_e2m1fn NaN", "float4_e2m1fn", "", "float4_e2m1fn", None, "NaN", b"\x08")
metadata = {"zarr_format": 2, "shape": [4], "chunks": [2], "dtype": "<f4", "compressor": None, "fill_value": None, "order": "C", "filters": None}
data = np.array([1, 2, 0, 0], np.float32)
cases.add("v2 fill null", partly("zarr", metadata, (slice(0, 2),), data), "float32", data, fill=True)

cases.save(__file__)
