#!/usr/bin/env python3
"""Checkpoints that TensorFlow 2.21.0 wrote, and what it says of them: python make_golden.py FOLDER

<name>.index and <name>.data-*   the checkpoint
types.json                       {key: [TensorFlow's number of the type, shape, bytes of the value in hexadecimal]}, of strings null
slices.json                      [[key, slice, number of the type, bytes]]
objects-1, checkpoint            what tf.train.Checkpoint.save wrote of a small program: a module, its optimizer's slots, a table, texts
objects.json                     {key: [type, shape, bytes of the value in hexadecimal, or the strings]}
split                            MaxShardSizePolicy's slices in several data files; split.json as objects.json
saved/variables                  of a SavedModel
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


class Layer(tf.Module):
    def __init__(self, seed):
        super().__init__()
        rng = np.random.default_rng(seed)
        self.kernel = tf.Variable(rng.standard_normal((3, 4)).astype(np.float32), name="kernel")
        self.bias = tf.Variable(np.arange(4, dtype=np.float32), name="bias")


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = Layer(1)
        self.blocks = [Layer(2), Layer(3)]
        self.named = {"a/b.c": Layer(4)}
        self.shared = self.layer1
        self.itself = self


def program():
    model = Model()
    optimizer = tf.compat.v1.train.AdamOptimizer(0.1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model.layer1.kernel)
    optimizer.apply_gradients([(tape.gradient(loss, model.layer1.kernel), model.layer1.kernel)])
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(tf.constant(["x"]), tf.constant([5], tf.int64))
    return tf.train.Checkpoint(model=model, optimizer=optimizer, table=table, step=tf.Variable(7, dtype=tf.int64), text=tf.Variable("h\u00e9llo"), texts=tf.Variable([["a", ""], ["b" * 20, "c"]]))


def described(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    found = {}
    for key, dtype in reader.get_variable_to_dtype_map().items():
        value = reader.get_tensor(key)
        text = np.vectorize(lambda b: b.decode("latin-1"), otypes=[object])(np.asarray(value, dtype=object)).tolist() if dtype == tf.string else value.tobytes().hex()
        if key != "_CHECKPOINTABLE_OBJECT_GRAPH":
            found[key] = [dtype.name, list(np.shape(value)), text]
    return dict(sorted(found.items()))


def programs(folder):
    checkpoint = program()
    checkpoint.save(str(folder / "objects"))
    (folder / "objects.json").write_text(json.dumps(described(folder / "objects-1")) + "\n")
    policy = tf.train.experimental.MaxShardSizePolicy(max_shard_size=40)
    split = tf.train.Checkpoint(a=tf.Variable(np.arange(35, dtype=np.float32).reshape(5, 7)), b=tf.Variable(np.arange(3, dtype=np.int64)), c=tf.Variable(2.5))
    split.write(str(folder / "split"), options=tf.train.CheckpointOptions(experimental_sharding_callback=policy))
    (folder / "split.json").write_text(json.dumps(described(folder / "split")) + "\n")
    module = tf.Module()
    module.v = tf.Variable([1.0, 2.0])
    tf.saved_model.save(module, str(folder / "saved"))
    for unwanted in ("saved_model.pb", "fingerprint.pb"):
        (folder / "saved" / unwanted).unlink()
    (folder / "saved" / "assets").rmdir()


def main(folder):
    folder = pathlib.Path(folder).resolve()
    programs(folder)
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
