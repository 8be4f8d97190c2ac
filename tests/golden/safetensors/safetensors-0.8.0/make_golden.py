"""Writes the files of this folder with the real package: every dtype, a set with an index, and its verdicts on damaged headers.

all.safetensors        every dtype in several shapes, odd names, metadata
all.json, all.values   what is in it, by name: dtype and shape; and the values one behind the other as they are in memory
set/                   the same tensors of three dtypes as shards with an index, laid out as huggingface_hub does
verdicts.json          small files in hexadecimal, and whether the package accepts them
"""
import json
import pathlib
import struct

import ml_dtypes  # registers the dtype names
import numpy as np
import safetensors
from safetensors import TensorSpec
from safetensors.numpy import save_file

HERE = pathlib.Path(__file__).parent
RNG = np.random.default_rng(20)
NUMPY_DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64",
                "bfloat16", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "complex64"]
SHAPES = [(), (0,), (3,), (2, 0, 3), (2, 3, 4)]
METADATA = {"format": "h\u00e9llo \"\\\n\x01\x7f\u2028\U0001f600"}


def random_array(dtype: str, shape: tuple) -> np.ndarray:
    dt = np.dtype(dtype)
    raw = RNG.integers(0, 2 if dtype == "bool" else 256, int(np.prod(shape)) * dt.itemsize, np.uint8)
    return np.frombuffer(raw.tobytes(), dt).reshape(shape)


def write_all() -> dict:
    arrays = {f"{d}/{len(s)}.{i}": random_array(d, s) for d in NUMPY_DTYPES for i, s in enumerate(SHAPES)}
    arrays["odd \u00e9\n\"\\\t\x01\x7f\u2028\U0001f600"] = random_array("uint8", (5,))
    arrays[""] = random_array("int16", (2,))
    specs = {n: TensorSpec(dtype=a.dtype.name, shape=a.shape, data_ptr=a.ctypes.data, data_len=a.nbytes) for n, a in arrays.items()}
    packed = RNG.integers(0, 256, (3, 4), np.uint8)  # 3 x 8 elements, two a byte, the first in the low bits
    specs["f4"] = TensorSpec(dtype="float4_e2m1fn_x2", shape=packed.shape, data_ptr=packed.ctypes.data, data_len=packed.nbytes)
    safetensors.serialize_file(specs, HERE / "all.safetensors", metadata=METADATA)

    expected = {n: {"dtype": a.dtype.name, "shape": list(a.shape)} for n, a in arrays.items()}
    expected["f4"] = {"dtype": "float4_e2m1fn", "shape": [3, 8]}
    values = {n: a.tobytes() for n, a in arrays.items()}
    values["f4"] = np.stack([packed & 15, packed >> 4], axis=-1).tobytes()
    names = sorted(expected, key=lambda n: n.encode())
    (HERE / "all.json").write_text(json.dumps([{"name": n, **expected[n]} for n in names], indent=1) + "\n")
    (HERE / "all.values").write_bytes(b"".join(values[n] for n in names))
    return arrays


def write_set(arrays: dict) -> None:
    folder = HERE / "set"
    folder.mkdir(exist_ok=True)
    weight_map, total = {}, 0
    for i, dtype in enumerate(["float32", "bfloat16", "uint8"], 1):
        shard = {n: a for n, a in arrays.items() if n.startswith(dtype + "/")}
        file = f"model-{i:05d}-of-00003.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        weight_map |= dict.fromkeys(shard, file)
        total += sum(a.nbytes for a in shard.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")


def file_of(header: bytes, data: int = 0, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + bytes(data)


def tensor(dtype: object = "F32", shape: object = (2,), offsets: object = (0, 8), **more: object) -> dict:
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}


def one(*args: object, data: int = 8, **more: object) -> bytes:
    return file_of(json.dumps({"a": tensor(*args, **more)}).encode(), data)


def two(first: dict, second: dict, data: int) -> bytes:
    return file_of(json.dumps({"a": first, "b": second}).encode(), data)


GOOD = '"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}'


def with_member(text: str) -> bytes:
    return file_of(('{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":' + text + "}}").encode(), 8)


def in_object(text: str, data: int = 8) -> bytes:
    return file_of(("{" + text + "}").encode(), data)


CASES = {
    "good": one(),
    "nothing": b"",
    "seven bytes": bytes(7),
    "no header": file_of(b""),
    "no tensors": file_of(b"{}"),
    "no tensors, data behind": file_of(b"{}", 1),
    "header longer than the file": file_of(b"{}", length=3),
    "header of 2^64 - 1 bytes": file_of(b"{}", length=2**64 - 1),
    "header of 100000001 bytes": file_of(b"{}", length=100_000_001),
    "header of 2^63 bytes": file_of(b"{}", length=2**63),
    "header length one short": file_of(b'{}', length=1),
    "an array": file_of(b"[]"),
    "a text": file_of(b'"a"'),
    "null": file_of(b"null"),
    "white space first": file_of(b" {" + GOOD.encode() + b"}", 8),
    "white space last": file_of(b"{" + GOOD.encode() + b"} \n\t\r ", 8),
    "byte order mark": file_of(b"\xef\xbb\xbf{}"),
    "NUL padding": file_of(b"{}\0\0"),
    "two objects": file_of(b"{}{}"),
    "trailing comma": in_object(GOOD + ","),
    "missing comma": in_object(GOOD + GOOD.replace("a", "b", 1)),
    "single quotes": file_of(b"{'a':1}"),
    "a comment": file_of(b"{/**/}"),
    "truncated JSON": file_of(b'{"a":{"dtype":"F32"'),
    "not UTF-8 in a name": file_of(b'{"\xff":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8),
    "over-long UTF-8": file_of(b'{"\xc0\x80":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8),
    "UTF-8 surrogate": file_of(b'{"\xed\xa0\x80":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}', 8),
    "control character in a name": in_object(GOOD.replace("a", "a\n", 1)),
    "escaped control character": in_object(GOOD.replace('"a"', '"a\\u0000"')),
    "lone high surrogate escape": in_object(GOOD.replace('"a"', '"\\ud800"')),
    "lone low surrogate escape": in_object(GOOD.replace('"a"', '"\\udc00"')),
    "surrogate pair escape": in_object(GOOD.replace('"a"', '"\\ud83d\\ude00"')),
    "unknown escape": in_object(GOOD.replace('"a"', '"\\x61"')),
    "empty name": in_object(GOOD.replace("a", "", 1)),
    "a tensor twice": in_object(GOOD + "," + GOOD),
    "tensor is null": in_object('"a":null', 0),
    "tensor is a number": in_object('"a":1', 0),
    "tensor is an array": in_object('"a":["F32",[2],[0,8]]'),
    "tensor is empty": in_object('"a":{}', 0),
    "no dtype": in_object('"a":{"shape":[2],"data_offsets":[0,8]}'),
    "no shape": in_object('"a":{"dtype":"F32","data_offsets":[0,8]}'),
    "no offsets": in_object('"a":{"dtype":"F32","shape":[2]}'),
    "dtype twice": in_object(GOOD[:-1] + ',"dtype":"F32"}'),
    "shape twice": in_object(GOOD[:-1] + ',"shape":[2]}'),
    "offsets twice": in_object(GOOD[:-1] + ',"data_offsets":[0,8]}'),
    "unknown dtype": one("F33"),
    "lower case dtype": one("f32"),
    "dtype is a number": one(17),
    "dtype is an object": one({"F32": None}),
    "shape is a number": one("F32", 2),
    "shape is null": one("F32", None),
    "shape is a text": one("F32", "2"),
    "negative extent": one("F32", [-2]),
    "fractional extent": one("F32", [2.5]),
    "extent 2.0": one("F32", [2.0]),
    "extent 2e0": in_object(GOOD.replace("[2]", "[2e0]")),
    "extent -0": in_object(GOOD.replace("[2]", "[2,-0]").replace("8]", "0]"), 0),
    "extent 02": in_object(GOOD.replace("[2]", "[02]")),
    "extent +2": in_object(GOOD.replace("[2]", "[+2]")),
    "extent is a text": one("F32", ["2"]),
    "extent true": one("F32", [True]),
    "extent 2^64": one("F32", [2**64]),
    "extents overflow": one("F32", [2**32, 2**32]),
    "bits overflow": one("F32", [2**60]),
    "extents overflow before a zero": one("F32", [2**62, 4, 0], [0, 0], data=0),
    "extent 2^64 - 1 behind a zero": one("F32", [0, 2**64 - 1], [0, 0], data=0),
    "extent 2^63 - 1 behind a zero": one("F32", [0, 2**63 - 1], [0, 0], data=0),
    "rank 0": one("F32", [], [0, 4], data=4),
    "rank 100": one("F32", [1] * 100, [0, 4], data=4),
    "zero extent": one("F32", [0], [0, 0], data=0),
    "offsets too small": one("F32", [2], [0, 4], data=4),
    "offsets too large": one("F32", [2], [0, 12], data=12),
    "offsets backwards": one("F32", [2], [8, 0]),
    "offsets beyond the file": one("F32", [2], [8, 16]),
    "one offset": one("F32", [2], [8]),
    "three offsets": one("F32", [2], [0, 8, 16]),
    "negative offset": one("F32", [2], [-8, 0]),
    "fractional offset": one("F32", [2], [0.0, 8.0]),
    "offset 2^64": one("F32", [2], [2**64, 2**64 + 8]),
    "offsets at the end of 64 bits": one("F32", [2], [2**64 - 9, 2**64 - 1]),
    "offsets are an object": one("F32", [2], {"0": 0, "1": 8}),
    "data one byte short": one(data=7),
    "data one byte long": one(data=9),
    "hole at the start": one("F32", [2], [1, 9], data=9),
    "two in order": two(tensor(), tensor(offsets=[8, 16]), 16),
    "two in reverse": two(tensor(offsets=[8, 16]), tensor(), 16),
    "hole between": two(tensor(), tensor(offsets=[9, 17]), 17),
    "overlap": two(tensor(), tensor(offsets=[4, 12]), 12),
    "same place": two(tensor(), tensor(), 8),
    "empty in the middle of another": two(tensor(), tensor(shape=[0], offsets=[4, 4]), 8),
    "empty at the end": two(tensor(), tensor(shape=[0], offsets=[8, 8]), 8),
    "empty behind the end": two(tensor(), tensor(shape=[0], offsets=[9, 9]), 8),
    "four-bit, odd": one("F4", [3], [0, 2], data=2),
    "four-bit, even": one("F4", [4], [0, 2], data=2),
    "four-bit, rank 0": one("F4", [], [0, 1], data=1),
    "six-bit, whole bytes": one("F6_E2M3", [4], [0, 3], data=3),
    "six-bit, part of a byte": one("F6_E3M2", [2], [0, 2], data=2),
    "metadata": in_object('"__metadata__":{"k":"v"},' + GOOD),
    "metadata last": in_object(GOOD + ',"__metadata__":{"k":"v"}'),
    "metadata null": in_object('"__metadata__":null,' + GOOD),
    "metadata empty": in_object('"__metadata__":{},' + GOOD),
    "metadata is an array": in_object('"__metadata__":[],' + GOOD),
    "metadata is a text": in_object('"__metadata__":"x",' + GOOD),
    "metadata number": in_object('"__metadata__":{"k":1},' + GOOD),
    "metadata value null": in_object('"__metadata__":{"k":null},' + GOOD),
    "metadata nested": in_object('"__metadata__":{"k":{"l":"m"}},' + GOOD),
    "metadata is a tensor": in_object(GOOD.replace("a", "__metadata__", 1)),
    "metadata twice": in_object('"__metadata__":{},"__metadata__":{},' + GOOD),
    "metadata key twice": in_object('"__metadata__":{"k":"1","k":"2"},' + GOOD),
    "unknown member": with_member('[1,{"y":null},true,-1.5e3]'),
    "unknown member NaN": with_member("NaN"),
    "unknown member -Infinity": with_member("[-Infinity]"),
    "unknown member 1e999": with_member("1e999"),
    "unknown member 1e-999": with_member("1e-999"),
    "unknown member of 30 digits": with_member("1" * 30),
    "nested 125 deep": with_member("[" * 125 + "]" * 125),
    "nested 126 deep": with_member("[" * 126 + "]" * 126),
}


def verdict(file: bytes) -> dict:
    try:
        safetensors.deserialize(file)
        return {"ok": True}
    except safetensors.SafetensorError as e:
        return {"ok": False, "error": str(e)}


def main() -> None:
    assert safetensors.__version__ == "0.8.0" and ml_dtypes
    write_set(write_all())
    verdicts = [{"case": name, "file": file.hex(), **verdict(file)} for name, file in CASES.items()]
    (HERE / "verdicts.json").write_text(json.dumps(verdicts, indent=1) + "\n")


if __name__ == "__main__":
    main()
