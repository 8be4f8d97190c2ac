"""The `checkpoint` file of a TensorFlow folder is mutated, and every bit of an index is flipped."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import pytest
import tensorflow as tf

import mutations
import test_file_documents as files
import verdicts


def save(path):
    checkpoint = tf.train.Checkpoint(a=tf.Variable(np.arange(3, dtype=np.float32)), text=tf.Variable("text"))
    tf.train.CheckpointManager(checkpoint, str(path), 2).save(5)


def read_prefix(prefix):
    reader = tf.train.load_checkpoint(prefix)
    return {name: np.asarray(reader.get_tensor(name)) for name in reader.get_variable_to_shape_map()}


def read(path):
    """TensorFlow takes a state file that it cannot parse for absent. Then the only checkpoint of the folder is meant."""
    return read_prefix(tf.train.latest_checkpoint(str(path)) or str(path / "ckpt-5"))


def state_rows(content):
    line = b'model_checkpoint_path: "ckpt-5"\n'
    yield "byte-order mark", mutations.BOM + content
    yield "twice", content + content
    yield "NUL behind", content + b"\0"
    yield "text behind", content + b"x"
    yield "comment", b"# comment\n" + content
    yield "semicolons", content.replace(b"\n", b";\n")
    yield "commas", content.replace(b"\n", b",\n")
    yield "no newline", line[:-1]
    yield "one line", content.replace(b"\n", b" ")
    yield "carriage returns", content.replace(b"\n", b"\r\n")
    for name, text in {
        "only the path": line, "single quotes": line.replace(b'"', b"'"), "no quotes": line.replace(b'"', b""), "no colon": line.replace(b":", b""), "two strings": b'model_checkpoint_path: "ckpt" "-5"\n',
        "no end quote": line[:-2] + b"\n", "unknown field": line + b"unknown: 1\n", "unknown message": line + b"unknown { a: 1 }\n", "path as number": b"model_checkpoint_path: 5\n",
        "path as message": b"model_checkpoint_path { }\n", "escapes": b'model_checkpoint_path: "ckpt\\0555"\n', "bad escape": b'model_checkpoint_path: "ckpt\\q"\n',
        "brackets": b'model_checkpoint_path: ["ckpt-5"]\n', "list": line + b'all_model_checkpoint_paths: ["ckpt-5"]\n', "time": line + b"last_preserved_timestamp: 1.5\n",
        "time as text": line + b'last_preserved_timestamp: "1.5"\n', "time inf": line + b"last_preserved_timestamp: inf\n", "times": line + b"all_model_checkpoint_timestamps: 1\n",
        "path in another case": line.replace(b"model", b"Model"), "bytes beyond ASCII": b'model_checkpoint_path: "ckpt-5\xff"\n', "two paths": line + line, "new line in a string": line.replace(b"-", b"\n-"),
    }.items():
        yield name, text


def index_rows(content):
    yield from files.flips(content)
    yield from files.of_bytes(content)


# Cairn nests the names as the object graph does, so values are not compared here (test_tensorflow_read.py does).
EXCEPTIONS = [("loaded", "", "other names"), ("refused", "beyond ASCII", "Cairn takes a state file that is not UTF-8 for absent, too"), ("restored", "^comment|another case", "the folder's file is not recognised as a state file"), ("restored", "byte|twice", "every block has a checksum; TensorFlow ignores the padding of the footer")]


@pytest.mark.parametrize(("file", "rows"), [("checkpoint", state_rows), ("ckpt-5.index", index_rows)])
def test_verdicts(file, rows, scratch):
    save(scratch / "c")
    path = scratch / "c" / file
    verdicts.Table(scratch / "c", path, [read], rows(path.read_bytes())).check(EXCEPTIONS, 30)
