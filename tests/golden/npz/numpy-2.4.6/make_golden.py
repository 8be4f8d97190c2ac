"""Writes what numpy.savez and savez_compressed make of every NumPy type, and single .npy files of all versions, with the values as
expected.json: name, Cairn's dtype, shape, C-order little-endian bytes (texts, times and raw bytes as they are stored)."""
import io
import json
import pathlib
import zipfile

import ml_dtypes
import numpy as np

HERE = pathlib.Path(__file__).parent
NUMBERS = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64", "complex64", "complex128"]


def values(dtype, shape, seed):
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype == bool:
        return rng.integers(0, 2, shape).astype(bool)
    return np.frombuffer(rng.bytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape)


def arrays():
    out = {}
    for i, name in enumerate(NUMBERS):
        out[f"{name}/2d"] = values(name, (3, 5), i)
        out[f"{name}/big"] = values(name, (2, 3), 50 + i).astype(np.dtype(name).newbyteorder(">"))
        out[f"{name}.fortran"] = np.asfortranarray(values(name, (2, 3, 4), 100 + i))
    out |= {"scalar": np.float32(1.5), "none": np.zeros((0, 3), "int16"), "none_fortran": np.zeros((3, 0), "int16", order="F")}
    out |= {"bfloat16": values(ml_dtypes.bfloat16, (4, 2), 7), "float8_e5m2": values(ml_dtypes.float8_e5m2, (6,), 8)}
    out |= {"float8_e4m3fn": values(ml_dtypes.float8_e4m3fn, (6,), 9), "void": values("V2", (3,), 10)}
    out |= {"bytes": np.array([b"ab", b"cde"]), "text": np.array(["h\u00e9", "\U0001f600"]), "time": np.array(["2026-01-02"], "M8[ns]"),
            "span": np.array([3, 4], ">m8[D]"), "long": np.array([1.25, -2], np.longdouble), "big fortran": np.asfortranarray(np.arange(12, dtype=">f4").reshape(3, 4))}
    out["name with \u00e9/slash.and.dot"] = np.arange(3)
    return out


def refused():
    return {"object": np.array([{"a": 1}], object), "fields": np.zeros(2, [("x", "<f4"), ("y", "<i2", (2,))])}


def dtype_of(array):
    descr = np.lib.format.dtype_to_descr(array.dtype)
    known = {"<V2": "bfloat16", "<f1": "float8_e5m2"}
    if descr in known:
        return known[descr]
    return array.dtype.newbyteorder("=").name if array.dtype.kind in "biufc" and array.dtype.itemsize <= 16 and array.dtype.char not in "gG" else descr


def expected(found):
    rows = []
    for name, array in found.items():
        array = np.asarray(array)
        if array.dtype.kind in "biufc":
            array = array.astype(array.dtype.newbyteorder("<"))
        rows.append({"name": name, "dtype": dtype_of(np.asarray(found[name])), "shape": list(array.shape), "hex": array.tobytes("C").hex()})
    return rows


def main() -> None:
    np.savez(HERE / "stored.npz", **arrays(), **refused())
    np.savez_compressed(HERE / "deflated.npz", **arrays(), **refused())
    np.savez(HERE / "small_stored.npz", a=np.arange(10, dtype="<i4"))
    np.savez_compressed(HERE / "small_deflated.npz", a=np.arange(10, dtype="<i4"))
    with io.BytesIO() as stream:  # one that cannot seek: the sizes lie behind the members
        class Pipe(io.RawIOBase):
            def writable(self):
                return True

            def write(self, data):
                return stream.write(data)

        with zipfile.ZipFile(Pipe(), "w", zipfile.ZIP_DEFLATED) as archive:
            for name, array in (("a", np.arange(6, dtype="<i4")), ("b", np.eye(3))):
                with archive.open(name + ".npy", "w") as member:
                    np.lib.format.write_array(member, array)
        (HERE / "piped.npz").write_bytes(stream.getvalue())
    for version in ((1, 0), (2, 0), (3, 0)):
        with open(HERE / f"version{version[0]}.npy", "wb") as file:
            np.lib.format.write_array(file, np.arange(6, dtype="<u2").reshape(2, 3), version=version)
    (HERE / "expected.json").write_text(json.dumps(expected(arrays()), indent=1) + "\n")


if __name__ == "__main__":
    main()
