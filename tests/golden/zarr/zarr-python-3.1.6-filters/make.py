"""Writes cases.json with zarr-python 3.1.6 and numcodecs 0.16.6: filters, checksums, and compressors among the filters.
What must be read is what zarr-python reads, which after a filter is not always what was written.

    python make.py        (zarr==3.1.6, numcodecs==0.16.6, numpy)
"""

import os
import sys
import warnings

import numcodecs as nc
import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, TransposeCodec, ZstdCodec
from zarr.codecs import numcodecs as zn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from golden import Cases  # noqa: E402

warnings.filterwarnings("ignore")
cases = Cases()


def add(name, zarr_format, data, **options):
    def write(path):
        zarr.create_array(path, shape=data.shape, dtype=data.dtype, zarr_format=zarr_format, **options, config={"write_empty_chunks": True})[...] = data
        nonlocal read
        read = zarr.open_array(path)[...]

    read = None
    folder = Cases()
    folder.add("", write, "", data)
    case = folder.cases[0]
    native = read.astype(read.dtype.newbyteorder("="))
    case.update(name=f"v{zarr_format} {name}", dtype=native.dtype.name, expected=native.tobytes().hex(), metadata=case["metadata"])
    cases.cases.append(case)


random = np.random.default_rng(7)
ints = {t: random.integers(np.iinfo(t).min, np.iinfo(t).max, (5, 7), t, endpoint=True) for t in ["i1", "u2", "i4", "u8", "i8"]}
floats = {t: (random.standard_normal((5, 7)) * 1000).astype(t) for t in ["f2", "f4", "f8"]}
small = random.integers(-100, 100, (5, 7))
bools = random.integers(0, 2, (5, 7)).astype(bool)
options = {"chunks": (3, 4), "compressors": None}

# Filters: v2.
for decoded, stored in [("<i4", "<i2"), (">i8", "|i1"), ("<u2", ">u4"), ("<f8", "<f4"), (">f8", "<i2"), ("<f4", "<f4"), ("<f2", "<f2"), (">f4", ">f4"), ("<f4", "<f2")]:
    for order in "CF":
        data = (small if np.dtype(decoded).kind != "u" else abs(small).cumsum().reshape(5, 7)).astype(decoded)
        add(f"delta {decoded} as {stored} {order}", 2, data, filters=[nc.Delta(decoded, stored)], order=order, **options)
for decoded, stored, scale, offset in [("<f8", "|u1", 0.1, -1000), ("<f8", "<i2", 10, 1000), ("<f4", "<i4", 100, -1.5), (">f4", ">f4", 3, 0.1), ("<f8", "<f4", 0.7, 5),
                                       ("<f4", "<f8", 0.3, 1e-3), ("<i4", "|i1", 0.05, 7), ("<f8", "<f8", 1e3, 1e-7), ("<f2", "<i4", 64, 3)]:
    data = floats["f4"].clip(-900, 900).astype(decoded)
    add(f"fixedscaleoffset {decoded} as {stored}", 2, data, filters=[nc.FixedScaleOffset(offset, scale, decoded, stored)], **options)
for decoded, stored in [("<f8", "<f4"), ("<f4", "<f2"), (">f8", ">f4"), ("<f8", "<f8")]:
    add(f"quantize {decoded} as {stored}", 2, floats["f8"].astype(decoded), filters=[nc.Quantize(2, decoded, stored)], **options)
for decoded, stored in [("<f8", "<f4"), ("<i8", "<i2"), ("<f4", "<i2"), (">i4", "<f8"), ("<c16", "<c8"), ("|b1", "<i4"), ("<f8", "|b1"), ("<u2", ">i8"), ("<i2", "<f2"), ("<f4", "<i8")]:
    add(f"astype {decoded} as {stored}", 2, small.astype(decoded), filters=[nc.AsType(stored, decoded)], **options)
for t in ["f2", "f4", "f8"]:
    add(f"bitround {t}", 2, floats[t], filters=[nc.BitRound(4)], **options)
for order in "CF":
    add(f"packbits {order}", 2, bools, filters=[nc.PackBits()], order=order, **options)
add("packbits whole bytes", 2, bools[:4, :4], filters=[nc.PackBits()], chunks=(4, 2), compressors=nc.Zstd())

# Checksums: v2 and v3.
for size in (1, 2, 3, 11, 12, 13, 24, 25, 719, 721, 1441):
    data = np.arange(size, dtype=np.uint8) * 37 + 5
    for codec in [nc.CRC32(), nc.CRC32("end"), nc.Adler32(), nc.Adler32("end"), nc.Fletcher32(), nc.JenkinsLookup3(), nc.JenkinsLookup3(initval=0xFEDCBA98), nc.CRC32C("start")][:: 1 if size == 13 else 2]:
        add(f"{codec.get_config()} of {size}", 2, data, chunks=(size,), filters=[codec], compressors=None)
for value in (0, 255):
    add(f"fletcher32 of {value}s", 2, np.full(1500, value, np.uint8), chunks=(1500,), filters=[nc.Fletcher32()], compressors=nc.Zlib())
for codec in [zn.CRC32(), zn.CRC32(location="end"), zn.Adler32(), zn.Fletcher32(), zn.JenkinsLookup3(), zn.JenkinsLookup3(initval=7), zn.CRC32C(location="start")]:
    add(f"codec {codec.to_dict()}", 3, ints["i4"], chunks=(3, 4), compressors=[codec])
add("checksum in the middle", 3, ints["i4"], chunks=(3, 4), compressors=[zn.Zlib(), zn.CRC32(), zn.BZ2(), zn.Fletcher32(), Crc32cCodec()])

# Compressors among the filters, and several steps.
for codec in [nc.Zlib(), nc.GZip(), nc.BZ2(), nc.LZ4(), nc.Zstd(checksum=True), nc.Blosc("zlib", 5, nc.Blosc.SHUFFLE)]:
    add(f"filter {codec.codec_id}", 2, ints["u2"], filters=[nc.Delta("<u2"), nc.Shuffle(2), codec, nc.CRC32()], order="F", chunks=(3, 4), compressors=nc.Zstd())
add("scaled deltas", 2, floats["f8"], filters=[nc.FixedScaleOffset(0, 8, "<f8", "<i4"), nc.Delta("<i4", ">i8"), nc.AsType("<i4", ">i8")], chunks=(3, 4), compressors=nc.Blosc())

# Filters: v3.
add("delta", 3, ints["i4"], filters=[zn.Delta(dtype="int32")], chunks=(3, 4))
add("delta astype", 3, small.astype("i4"), filters=[zn.Delta(dtype="int32", astype="int16")], chunks=(3, 4))
add("fixedscaleoffset", 3, floats["f8"].clip(0, 20), filters=[zn.FixedScaleOffset(offset=0, scale=10, dtype="float64", astype="uint8")], chunks=(3, 4))
add("fixedscaleoffset defaults", 3, floats["f8"], filters=[zn.FixedScaleOffset(offset=0, scale=4)], chunks=(3, 4))
add("quantize", 3, floats["f4"], filters=[zn.Quantize(digits=1)], chunks=(3, 4))
add("bitround", 3, floats["f4"], filters=[zn.BitRound(keepbits=5)], chunks=(3, 4))
add("bitround transposed", 3, floats["f4"], filters=[TransposeCodec(order=(1, 0)), zn.BitRound(keepbits=5)], chunks=(3, 4))
add("astype", 3, floats["f8"], filters=[zn.AsType(encode_dtype="float32", decode_dtype="float64")], chunks=(3, 4))
add("astype transposed", 3, floats["f8"], filters=[zn.AsType(encode_dtype="float32"), TransposeCodec(order=(1, 0))], chunks=(3, 4))
add("packbits", 3, bools, filters=[zn.PackBits()], chunks=(3, 4))
add("filters in shards", 3, ints["i8"][:4, :6], filters=[zn.Delta(dtype="int64")], chunks=(2, 3), shards=(4, 6), compressors=[ZstdCodec(), zn.Adler32()])
for codec in [zn.Blosc(cname="zlib"), zn.LZ4(), zn.BZ2(), zn.Zlib(), zn.GZip(), zn.Zstd(checksum=True)]:
    add(f"codec {codec.to_dict()['name']} in shards", 3, ints["u8"][:4, :6], chunks=(2, 3), shards=(4, 6), compressors=[codec])

cases.save(__file__)
