"""Writes headers.json: what numpy.save writes before the values, for every dtype and shapes of every length of text."""
import io
import json
import pathlib

import ml_dtypes  # registers the dtype names
import numpy as np

HERE = pathlib.Path(__file__).parent
DTYPES = ["bool", "int2", "int4", "int8", "int16", "int32", "int64", "uint2", "uint4", "uint8", "uint16", "uint32", "uint64",
          "float4_e2m1fn", "float8_e3m4", "float8_e4m3", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2",
          "float8_e5m2fnuz", "float8_e8m0fnu", "bfloat16", "float16", "float32", "float64", "complex64", "complex128"]
SHAPES = [(), (0,), (3,), (2, 3), (1, 0, 7), (10, 0), (100000, 0), (0, 2**40), (12345, 0, 1, 2, 3, 4, 5, 6, 7)]
SHAPES += [(1,) * n for n in (20, 30, 31, 32, 64)]


def header(dtype: str, shape: tuple) -> str:
    out = io.BytesIO()
    array = np.broadcast_to(np.zeros((), dtype), shape) if 0 in shape else np.zeros(shape, dtype)
    np.save(out, array)
    return out.getvalue()[: len(out.getvalue()) - array.nbytes].decode("latin-1")


def main() -> None:
    assert ml_dtypes
    cases = [(d, s) for d in DTYPES for s in SHAPES[:4]] + [("float32", s) for s in SHAPES]
    rows = [{"dtype": d, "shape": list(s), "header": header(d, s)} for d, s in cases]
    (HERE / "headers.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
