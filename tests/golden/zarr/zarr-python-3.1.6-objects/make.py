"""Writes cases.json with zarr-python 3.1.6 and numcodecs 0.16.6: strings and byte strings of any length.

    python make.py        (zarr==3.1.6, numcodecs==0.16.6, numpy)
"""

import os
import sys
import warnings

import numcodecs as nc
import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, GzipCodec, TransposeCodec

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from golden import Cases  # noqa: E402

warnings.filterwarnings("ignore")
cases = Cases()
TEXTS = np.array(["a", "", "d\u00e9f", "x\U0001f600" * 3, "0"], dtype=object)
BYTES = np.array([b"a", b"", b"de\xff", b"\x00" * 9, b"0"], dtype=object)


GRID = np.array([["a", "", "c\u00e7c", "d"], ["\u00e9", "ff", "g", "\U0001f600"], ["1", "22", "333", "4444"]], dtype=object)


def add(name, zarr_format, dtype, data, shown, *, chunks=(3,), fill=None, **options):
    """`fill`: the fill value; the first row of chunks is not written. The case expects the strings that zarr-python reads, as one chunk of vlen-utf8 or vlen-bytes."""
    read = []

    def write(path):
        if fill is not None:
            options["fill_value"] = fill
        array = zarr.create_array(path, shape=data.shape, chunks=chunks, dtype=dtype, zarr_format=zarr_format, **options)
        rows = slice(chunks[0], None) if fill is not None else ...
        array[rows] = data[rows]
        read.append(np.array(zarr.open_array(path)[...], dtype=object))

    cases.add(f"v{zarr_format} {name}", write, shown, np.zeros((5, 0)), fill=fill is not None)
    codec = nc.VLenBytes() if "bytes" in shown else nc.VLenUTF8()
    cases.cases[-1].update(element_size=0, shape=list(data.shape), expected=codec.encode(read[0].ravel()).hex())


VLEN_BYTES = zarr.dtype.VariableLengthBytes()
add("string", 2, "string", TEXTS, "|O (vlen-utf8)", compressors=None)
add("string zstd", 2, "string", TEXTS, "|O (vlen-utf8)")
add("string checksum", 2, "string", TEXTS, "|O (vlen-utf8)", filters=[nc.VLenUTF8(), nc.CRC32()], compressors=nc.Zlib())
add("bytes", 2, VLEN_BYTES, BYTES, "|O (vlen-bytes)", compressors=None)
add("string", 3, "string", TEXTS, "string (vlen-utf8)", compressors=None)
add("string gzip", 3, "string", TEXTS, "string (vlen-utf8)", compressors=[GzipCodec(), Crc32cCodec()])
add("bytes", 3, VLEN_BYTES, BYTES, "variable_length_bytes (vlen-bytes)", compressors=None)
for order in "CF":
    add(f"grid {order}", 2, "string", GRID, "|O (vlen-utf8)", chunks=(2, 3), order=order)
add("grid of no strings", 2, "string", GRID[:0], "|O (vlen-utf8)", chunks=(2, 3))
add("scalar", 2, "string", np.array("\u00e9", dtype=object), "|O (vlen-utf8)", chunks=())
add("fill", 2, "string", GRID, "|O (vlen-utf8)", chunks=(2, 3), fill="n\u00f6")
add("fill of bytes", 2, VLEN_BYTES, BYTES, "|O (vlen-bytes)", fill=b"\xff\x00")
add("grid", 3, "string", GRID, "string (vlen-utf8)", chunks=(2, 3))
add("grid transpose", 3, "string", GRID, "string (vlen-utf8)", chunks=(2, 3), filters=[TransposeCodec(order=(1, 0))])
add("grid sharded", 3, "string", GRID, "string (vlen-utf8)", chunks=(1, 3), shards=(2, 3))
add("fill sharded", 3, "string", GRID, "string (vlen-utf8)", chunks=(1, 2), shards=(2, 4), fill="n\u00f6")
add("fill of bytes", 3, VLEN_BYTES, BYTES, "variable_length_bytes (vlen-bytes)", fill=b"\xff\x00")

cases.save(__file__)
