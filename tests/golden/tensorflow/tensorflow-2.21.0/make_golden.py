#!/usr/bin/env python3
"""Checkpoints that TensorFlow 2.21.0 wrote, and what it says of them: python make_golden.py FOLDER

<name>.index and <name>.data-*   the checkpoint
types.json                       {key: [TensorFlow's number of the type, shape, bytes of the value in hexadecimal]}, of strings null
slices.json                      [[key, slice, number of the type, bytes]]
Keys are any bytes; here they are spelled in Latin-1.
"""

import json
import os
import pathlib
import sys

os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

NUMBERS = ["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "complex64", "complex128"]


def every_type():
    rng = np.random.default_rng(21)
    found = {"bool": np.array([True, False, True])}
    for name in NUMBERS:
        found[name] = tf.cast(rng.integers(0, 100, (2, 3)), name)
    for name in ("float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "int4", "uint4", "int2", "uint2", "float4_e2m1fn"):
        dtype = getattr(tf.dtypes, name, None) or getattr(tf.dtypes.experimental, name)
        bits = np.arange(4, dtype=np.uint8) if "2" == name[-1] else np.arange(8, dtype=np.uint8)
        found[name] = tf.constant(bits.view(dtype.as_numpy_dtype), dtype)
    for name in ("qint8", "quint8", "qint16", "quint16", "qint32"):
        found[name] = tf.bitcast(tf.constant([1, 2, 3], name[1:]), getattr(tf.dtypes, name))
    found |= {"empty": np.zeros((0, 3), np.float32), "scalar": np.int64(-7), "text": np.array(b"hello"), "texts": np.array([[b"", b"a" * 300], [b"\x00\xff", b"x"]]),
              "no texts": np.zeros((0,), dtype=object).astype(str), "a/b.c/.ATTRIBUTES/VARIABLE_VALUE": np.arange(5, dtype=np.int16), "bytes \xff\x00 in it": np.float64(2.5)}
    return found


def save(prefix, tensors):
    """tensors: (name, slice, value)."""
    names, slices, values = zip(*tensors)
    encoded = [name.encode("latin-1") for name in names]
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=encoded, shape_and_slices=list(slices), tensors=list(values))


def bytes_of(value):
    value = tf.convert_to_tensor(value)
    if value.dtype == tf.string:
        return None
    if value.dtype.name.startswith(("qint", "quint")):
        value = tf.bitcast(value, value.dtype.name[1:])
    return np.asarray(value).tobytes().hex()


def type_number(value):
    return tf.convert_to_tensor(value).dtype.as_datatype_enum


def main(folder):
    folder = pathlib.Path(folder).resolve()
    tensors = every_type()
    save(folder / "types", [(name, "", value) for name, value in tensors.items()])
    values = {name: [type_number(value), tf.convert_to_tensor(value).shape.as_list(), bytes_of(value)] for name, value in tensors.items()}
    (folder / "types.json").write_text(json.dumps(values) + "\n")

    whole = np.arange(1200, dtype=np.float32).reshape(400, 3)
    parts = [("w", "400 3 0,100:-", whole[:100]), ("w", "400 3 100,300:-", whole[100:]), ("plain", "", np.int32(5)), ("all", "2 2 0,2:-", np.eye(2, dtype=np.float32)),
             ("cube", "4 3 5 0,4:1,1:3,2", np.ones((4, 1, 2), np.int32)), ("n\xff\x00", "3 0,2", np.arange(2, dtype=np.float32)), ("n\xff\x00", "3 2,1", np.arange(1, dtype=np.float32))]
    save(folder / "slices", parts)
    (folder / "slices.json").write_text(json.dumps([[name, spec, type_number(value), bytes_of(value)] for name, spec, value in parts]) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
