"""Writes the files of this folder with the real packages: random trees as flax's and Orbax's msgpack, and what they read back.

<name>.msgpack   the bytes
leaves.json      for each of them its leaves in order: path [[key, 1 for sequences or 2 for dicts], ...], kind, dtype, shape, and the value:
                 hexadecimal bytes of arrays and numbers, the text of strings
"""
import json
import pathlib
import random
import unittest.mock

import flax.serialization
import ml_dtypes
import numpy as np
from orbax.checkpoint import msgpack_utils

HERE = pathlib.Path(__file__).parent
DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64", "complex64",
          "complex128", "bfloat16", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2",
          "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn", "int2", "int4", "uint2", "uint4"]
RANDOM_KEYS = ["kernel", "bias", "a.b", "a/b", "\u00e9", "\U0001f600", "0", "10", "9", " ", "long_" * 7]


def random_array(rng: random.Random, dtype: str) -> np.ndarray:
    dt = np.dtype(dtype)
    shape = tuple(rng.choice([0, 1, 2, 3]) for _ in range(rng.randrange(4)))
    low_bits = {"bool": 2, "int2": 4, "uint2": 4, "int4": 16, "uint4": 16, "float4_e2m1fn": 16}.get(dtype, 256)
    raw = bytes(rng.randrange(low_bits) for _ in range(int(np.prod(shape)) * dt.itemsize))
    return np.frombuffer(raw, dt).reshape(shape)


def random_leaf(rng: random.Random, tuples: bool) -> object:
    choices = [None, True, False, 0, 127, 128, -1, -32, -33, 255, 256, 65535, 65536, 2**31, 2**32, 2**63 - 1, 2**63, 2**64 - 1,
               -(2**15) - 1, -(2**31) - 1, -(2**63), 0.0, -0.0, 1.5, float("inf"), float("nan"), 1e300, "", "text", "\u00e9\u2028", "x" * 31, "x" * 32,
               "x" * 300, b"", b"\x00\xff", b"y" * 300, 1 + 2j, {}, [], np.float32(1.5), np.int8(-3), np.bool_(True),
               np.complex128(1j), np.uint64(2**64 - 1)]
    if tuples:
        choices.append(())
    if rng.random() < 0.5:
        return random_array(rng, rng.choice(DTYPES))
    return rng.choice(choices)


def random_tree(rng: random.Random, depth: int, tuples: bool) -> object:
    kind = rng.random()
    if depth == 0 or kind < 0.3:
        return random_leaf(rng, tuples)
    if kind < 0.75:
        keys = rng.sample(RANDOM_KEYS, rng.randrange(6))
        if rng.random() < 0.1:
            keys += [f"k{i}" for i in range(20)]
        return {k: random_tree(rng, depth - 1, tuples) for k in keys}
    items = [random_tree(rng, depth - 1, tuples) for _ in range(rng.choice([0, 1, 2, 3, 17]))]
    return tuple(items) if tuples and rng.random() < 0.5 else items


def leaves_of(tree: object, path: list) -> list:
    if isinstance(tree, dict) and tree:
        return [leaf for k, v in tree.items() for leaf in leaves_of(v, path + [[str(k), 2]])]
    if isinstance(tree, (list, tuple)) and tree:
        return [leaf for i, v in enumerate(tree) for leaf in leaves_of(v, path + [[str(i), 1]])]
    leaf = {"path": path}
    empty = {type(None): "None", dict: "Dict", list: "List", tuple: "Tuple"}.get(type(tree))
    if empty:
        return [leaf | {"kind": empty}]
    if isinstance(tree, str):
        return [leaf | {"kind": "string", "value": tree}]
    if isinstance(tree, bytes):
        return [leaf | {"kind": "bytes", "dtype": "uint8", "shape": [len(tree)], "value": tree.hex()}]
    kind = "np.ndarray" if isinstance(tree, np.ndarray) else "np.generic" if isinstance(tree, np.generic) else "complex" if isinstance(tree, complex) else "scalar"
    array = np.asarray(tree)
    return [leaf | {"kind": kind, "dtype": array.dtype.name, "shape": list(array.shape), "value": array.tobytes().hex()}]


def main() -> None:
    assert ml_dtypes
    cases = {f"flax_{i:02}": (flax.serialization, random_tree(random.Random(i), 4, False), None) for i in range(16)}
    cases |= {f"orbax_{i:02}": (msgpack_utils, random_tree(random.Random(100 + i), 4, True), None) for i in range(16)}
    rng = random.Random(7)
    big = np.arange(100, dtype="float32").reshape(4, 25)
    chunky = {"long": "x" * 70000, "a": big, "f": np.zeros((2, 0), "int8"),
              "b": {"c": np.arange(33, dtype="int16"), "d": [1, big[0]], "e": np.float64(2)}}
    cases |= {"dtypes": (flax.serialization, {d: random_array(rng, d) for d in DTYPES}, None),
              "flax_chunked": (flax.serialization, chunky, 64), "orbax_chunked": (msgpack_utils, chunky | {"t": (1, (2.5, "x"))}, 64),
              "flax_chunked_root": (flax.serialization, big, 64),
              "flax_int_keys": (flax.serialization, {1: {-2: np.ones(2, "int8")}, 3: 3}, None),
              "datetimes": (flax.serialization, {"t": np.array([0, 1], "datetime64[D]"), "d": np.array(5, "timedelta64[ns]")}, None)}
    expected = {}
    for name, (package, tree, chunk) in cases.items():
        with unittest.mock.patch.object(package, "MAX_CHUNK_SIZE", chunk or package.MAX_CHUNK_SIZE):
            encoded = package.msgpack_serialize(tree)
        (HERE / f"{name}.msgpack").write_bytes(encoded)
        expected[name] = leaves_of(package.msgpack_restore(encoded), [])
    (HERE / "leaves.json").write_text(json.dumps(expected, indent=None).replace('}, {"path"', '},\n {"path"') + "\n")


if __name__ == "__main__":
    main()
