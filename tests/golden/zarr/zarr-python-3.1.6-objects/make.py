"""Writes cases.json with zarr-python 3.1.6 and numcodecs 0.16.6: elements of no fixed size, which can be checked but not read.

    python make.py        (zarr==3.1.6, numcodecs==0.16.6, numpy)
"""

import os
import sys
import warnings

import numcodecs as nc
import numpy as np
import zarr
from zarr.codecs import Crc32cCodec, GzipCodec

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from golden import Cases  # noqa: E402

warnings.filterwarnings("ignore")
cases = Cases()
TEXTS = np.array(["a", "", "d\u00e9f", "x\U0001f600" * 3, "0"], dtype=object)
BYTES = np.array([b"a", b"", b"de\xff", b"\x00" * 9, b"0"], dtype=object)


def add(name, zarr_format, dtype, data, shown, **options):
    def write(path):
        zarr.create_array(path, shape=(5,), chunks=(3,), dtype=dtype, zarr_format=zarr_format, **options)[...] = data

    cases.add(f"v{zarr_format} {name}", write, shown, np.zeros((5, 0)))
    cases.cases[-1].update(element_size=0, shape=[5])


add("string", 2, "string", TEXTS, "|O (vlen-utf8)", compressors=None)
add("string zstd", 2, "string", TEXTS, "|O (vlen-utf8)")
add("string checksum", 2, "string", TEXTS, "|O (vlen-utf8)", filters=[nc.VLenUTF8(), nc.CRC32()], compressors=nc.Zlib())
add("bytes", 2, zarr.dtype.VariableLengthBytes(), BYTES, "|O (vlen-bytes)", compressors=None)
add("string", 3, "string", TEXTS, "string (vlen-utf8)", compressors=None)
add("string gzip", 3, "string", TEXTS, "string (vlen-utf8)", compressors=[GzipCodec(), Crc32cCodec()])
add("bytes", 3, zarr.dtype.VariableLengthBytes(), BYTES, "variable_length_bytes (vlen-bytes)", compressors=None)

cases.save(__file__)
