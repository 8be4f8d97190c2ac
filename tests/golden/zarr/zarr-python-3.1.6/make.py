"""Writes cases.json with zarr-python 3.1.6 and numcodecs: what they write beyond TensorStore, and their spelling of the rest.

    python make.py        (zarr==3.1.6, numcodecs, numpy)
"""

import os
import sys
import warnings

import numcodecs
import numpy as np
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, TransposeCodec, ZstdCodec
from zarr.codecs import numcodecs as zn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from golden import Cases  # noqa: E402

warnings.filterwarnings("ignore")
cases = Cases()


def add(name, zarr_format, data, *, dtype=None, expected=None, fill=False, region=None, **options):
    """region: only this part is written."""

    def write(path):
        array = zarr.create_array(path, shape=data.shape, dtype=data.dtype, zarr_format=zarr_format, **options,
                                  config={"write_empty_chunks": not fill})
        where = region if region is not None else ...
        array[where] = data[where]

    cases.add(f"v{zarr_format} {name}", write, dtype or data.dtype.name, data if expected is None else expected, fill=fill)


def random(dtype, shape, seed=0):
    dtype = np.dtype(dtype)
    if dtype == bool:
        return np.random.default_rng(seed).integers(0, 2, shape).astype(bool)
    raw = np.random.default_rng(seed).integers(0, 256, int(np.prod(shape)) * dtype.itemsize, dtype=np.uint8)
    return raw.view(dtype).reshape(shape)


PLAIN = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
         "complex64", "complex128"]
for dtype in PLAIN:
    data = random(dtype, (5, 3))
    for fmt in (2, 3):
        add(dtype, fmt, data, chunks=(2, 2))
        add(f"{dtype} raw", fmt, data, chunks=(5, 3), compressors=None)
    if np.dtype(dtype).itemsize > 1:
        big = data.astype(np.dtype(dtype).newbyteorder(">"))
        add(f"{dtype} big-endian", 2, big, chunks=(2, 2), compressors=None, dtype=dtype, expected=data)
        add(f"{dtype} big-endian", 3, data, chunks=(2, 2), serializer=BytesCodec(endian="big"))

# Elements that are kept as stored.
for name, data in {
    "|S3": np.array([[b"ab", b"c"], [b"", b"def"]], "S3"),
    "<U3": np.array([["ab", "c"], ["", "d\u00e9\U0001f600"]], "<U3"),
    "|V3": np.array([[b"ab", b"c"], [b"", b"def"]], "V3"),
    "<M8[ns]": np.array([[1, 2], [3, "NaT"]], "M8[ns]"),
    "<m8[10s]": np.array([[1, 2], [3, 4]], "m8[10s]"),
}.items():
    for fmt in (2, 3):
        add(name, fmt, data, chunks=(1, 2), dtype=name)
for name, data in {">U3": np.array(["ab", "c"], ">U3"), ">M8[ns]": np.array([1, 2], ">M8[ns]"), "<M8[D]": np.array([1, 2], "M8[D]")}.items():
    add(name, 2, data, chunks=(2,), dtype=name, compressors=None)
structure = np.array([(1, 2.0), (3, 4.0)], [("a", "<i4"), ("b", "<f8")])
add("structure", 2, structure, chunks=(2,), dtype='[["a","<i4"],["b","<f8"]]')
add("structure", 3, structure, chunks=(2,), dtype='[["a","int32"],["b","float64"]]')

# Codecs.
data = np.arange(7 * 6 * 5, dtype=np.int32).reshape(7, 6, 5) // 3
options = {"chunks": (4, 3, 5)}
for codec in [numcodecs.LZ4(), numcodecs.Zlib(), numcodecs.BZ2(), numcodecs.GZip(), numcodecs.Zstd(level=3),
              numcodecs.Zstd(level=3, checksum=True), numcodecs.Blosc(), numcodecs.Blosc("zstd", 3, numcodecs.Blosc.BITSHUFFLE)]:
    add(f"compressor {codec.get_config()}", 2, data, compressors=codec, **options)
for filters in [[numcodecs.Delta("<i4")], [numcodecs.Delta("<i4"), numcodecs.Shuffle(4)], [numcodecs.CRC32C()], [numcodecs.Shuffle(4)]]:
    for order in "CF":
        add(f"filters {[f.codec_id for f in filters]} {order}", 2, data, filters=filters, compressors=numcodecs.Zstd(level=1), order=order, **options)
for dtype in ["int8", "uint16", ">u2", ">i4", "int64", ">i8"]:
    stored = random(np.dtype(dtype).newbyteorder("="), (5, 7), 1)
    add(f"delta {dtype}", 2, stored.astype(dtype), dtype=np.dtype(dtype).name, expected=stored, chunks=(5, 3),
        filters=[numcodecs.Delta(dtype)], compressors=None)
for codec in [zn.LZ4(), zn.Zlib(), zn.BZ2(), zn.GZip(), zn.Zstd(), zn.Blosc(), zn.Shuffle(elementsize=4), zn.CRC32C()]:
    add(f"codec {codec.to_dict()}", 3, data, compressors=[codec], **options)
for name, codecs in {
    "zstd checksum": [ZstdCodec(level=0, checksum=True)],
    "gzip": [GzipCodec()],
    "blosc": [BloscCodec(cname="zstd", shuffle="bitshuffle")],
    "crc32c": [Crc32cCodec()],
    "gzip crc32c zstd": [GzipCodec(), Crc32cCodec(), ZstdCodec()],
}.items():
    add(f"codec {name}", 3, data, compressors=codecs, **options)
add("transpose", 3, data, filters=[TransposeCodec(order=(2, 0, 1))], **options)
add("dimension names", 3, data, dimension_names=["a", None, "c"], attributes={"x": [1, {"y": None}]}, **options)
for fmt in (2, 3):
    add("rank 0", fmt, np.array(-5, np.int16))
    add("empty", fmt, np.zeros((0, 3), np.float32))
    add("fill NaN", fmt, np.full((4, 4), np.nan, np.float32), chunks=(2, 2), fill_value=np.nan, fill=True)
    add("fill 7", fmt, np.full((4, 4), 7, np.int64), chunks=(2, 2), fill_value=7, fill=True)
    add("fill complex", fmt, np.full((4, 4), complex(np.inf, -0.0), np.complex128), chunks=(2, 2), fill_value=complex(np.inf, -0.0), fill=True)
    add("fill bool", fmt, np.full((4, 4), True), chunks=(2, 2), fill_value=True, fill=True)
    add("fill M8", fmt, np.full((4, 4), np.datetime64("NaT"), "M8[s]"), dtype="<M8[s]", chunks=(2, 2), fill=True)
    add("fill |S", fmt, np.full((4,), b"xy", "S3"), dtype="|S3", chunks=(2,), fill_value=b"xy", fill=True)
    add("fill <U", fmt, np.full((4,), "\u00e9\U0001f600", "<U3"), dtype="<U3", chunks=(2,), fill_value="\u00e9\U0001f600", fill=True)
    add("fill |V", fmt, np.full((4,), b"xyz", "V3"), dtype="|V3", chunks=(2,), fill_value=np.void(b"xyz"), fill=True)

# Shards. zarr-python writes the inner chunks in an order of its own.
data = np.arange(8 * 12, dtype=np.uint16).reshape(8, 12)
add("shard", 3, data, chunks=(2, 3), shards=(4, 6))
add("shard start", 3, data, chunks=(4, 6), compressors=None,
    serializer=ShardingCodec(chunk_shape=(2, 3), index_location="start", codecs=[BytesCodec(), Crc32cCodec()]))
add("shard nested", 3, data, chunks=(8, 12), compressors=None,
    serializer=ShardingCodec(chunk_shape=(4, 6), codecs=[ShardingCodec(chunk_shape=(2, 3), codecs=[BytesCodec(endian="big"), GzipCodec()])]))
partial = np.zeros((8, 12), np.uint16)
partial[1:3, 2:5] = data[1:3, 2:5] + 1
add("shard partial", 3, partial, chunks=(2, 3), shards=(4, 6), fill=True, region=(slice(1, 3), slice(2, 5)))

cases.save(__file__)
