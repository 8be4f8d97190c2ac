"""`cairn convert --to tensorflow` from every format, restored by TensorFlow; and a program's own objects, which stay what they are."""

import os
import random

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import flax.serialization
import keras
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest
import safetensors.numpy
import tensorflow as tf

import cairn_cli

SEED = int(os.environ["CAIRN_SEED"])
SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


def random_array(rng):
    dtype = np.dtype(rng.choice(["float32", "float64", "int32", "int64", "uint8", "bool", "float16", ml_dtypes.bfloat16, "complex64"]))
    shape = tuple(rng.randrange(1, 5) for _ in range(rng.randrange(0, 3)))
    if dtype == bool:
        return np.array(np.frombuffer(rng.randbytes(int(np.prod(shape))), np.uint8) % 2, dtype=bool).reshape(shape)
    return np.frombuffer(rng.randbytes(int(np.prod(shape)) * dtype.itemsize), dtype).reshape(shape).copy()


def random_tree(rng, depth=0):
    if depth > 2 or (depth and rng.random() < 0.3):
        return random_array(rng)
    if depth and rng.random() < 0.4:
        return [random_tree(rng, depth + 1) for _ in range(rng.randrange(1, 4))]
    names = ["kernel", "bias", "layer_0", "Z"] + (["odd/name.x", "ü"] if depth else [])
    return {name: random_tree(rng, depth + 1) for name in rng.sample(names, rng.randrange(1, 4))}


def variables(tree):
    if isinstance(tree, dict):
        return {key: variables(child) for key, child in tree.items()}
    if isinstance(tree, (list, tuple)):
        return [variables(child) for child in tree]
    return tf.Variable(tf.zeros(tree.shape, tf.dtypes.as_dtype(tree.dtype)))


def leaves(tree):
    if isinstance(tree, dict):
        return [leaf for child in tree.values() for leaf in leaves(child)]
    return [leaf for child in tree for leaf in leaves(child)] if isinstance(tree, (list, tuple)) else [tree]


def bytes_of(array):
    return np.ascontiguousarray(array).tobytes()


def check_restored(prefix, tree):
    fresh = variables(tree)
    tf.train.Checkpoint(**fresh).restore(str(prefix)).assert_consumed()
    for have, want in zip(leaves(fresh), leaves(tree), strict=True):
        assert bytes_of(have.numpy()) == bytes_of(want)


def convert(*args, status=0):
    return cairn_cli.run("convert", *args, status=status).stderr.decode()


def test_from_orbax(scratch):
    for i in range(8):
        rng = random.Random(f"{SEED}-{i}")
        tree = random_tree(rng)
        ocp.PyTreeCheckpointer().save(scratch / f"orbax{i}", tree)
        options = [] if rng.random() < 0.5 else ["--shard-bytes", "100000"]
        convert(scratch / f"orbax{i}", scratch / f"tf{i}" / "ckpt", "--to", "tensorflow", *options)
        check_restored(scratch / f"tf{i}" / "ckpt", tree)
        assert tf.train.latest_checkpoint(str(scratch / f"tf{i}")) == str(scratch / f"tf{i}" / "ckpt")


def test_from_flax(scratch):
    """Which has lists as dicts "0", "1", ...; TensorFlow calls both the same."""
    for i in range(8):
        tree = random_tree(random.Random(f"{SEED}-flax-{i}"))
        (scratch / "x.msgpack").write_bytes(flax.serialization.to_bytes(tree))
        convert(scratch / "x.msgpack", scratch / "ckpt.index", "--replace")
        check_restored(scratch / "ckpt", tree)


@pytest.mark.parametrize("kind", ["safetensors", "npz"])
def test_from_flat_names(scratch, kind):
    tree = {"model": {"layers": [{"kernel": np.arange(6, dtype=np.float32).reshape(2, 3)}, {"kernel": np.float64(3) * np.ones(2)}], "step": np.array(7)}}
    flat = {"model.layers.0.kernel": tree["model"]["layers"][0]["kernel"], "model.layers.1.kernel": tree["model"]["layers"][1]["kernel"],
            "model.step": tree["model"]["step"]}
    path = scratch / f"x.{kind}"
    safetensors.numpy.save_file(flat, path) if kind == "safetensors" else np.savez(path, **flat)
    convert(path, scratch / "ckpt", "--to", "tensorflow")
    check_restored(scratch / "ckpt", tree)
    convert(path, scratch / "named", "--to", "tensorflow", "--names", "--no-latest")
    reader = tf.train.load_checkpoint(str(scratch / "named"))
    assert sorted(reader.get_variable_to_shape_map()) == sorted(flat)
    assert all(bytes_of(reader.get_tensor(name)) == bytes_of(value) for name, value in flat.items())
    assert tf.train.latest_checkpoint(str(scratch)) == str(scratch / "ckpt")
    convert(path, scratch / "renamed", "--to", "tensorflow", "--names", "--rename", r"\.=/")
    assert tf.train.load_checkpoint(str(scratch / "renamed")).has_tensor("model/layers/0/kernel")
    (scratch / "x").mkdir()
    np.savez(scratch / "slashes.npz", **{"a/b": np.ones(2)})
    convert(scratch / "slashes.npz", scratch / "slashes", "--to", "tensorflow", "--no-latest")
    assert tf.train.load_checkpoint(str(scratch / "slashes")).has_tensor("a/b" + SUFFIX)


def test_refuses_by_name(scratch):
    ocp.PyTreeCheckpointer().save(scratch / "orbax", {"a": np.ones(2), "none": None, "f8": np.zeros(2, ml_dtypes.float8_e8m0fnu)})
    said = convert(scratch / "orbax", scratch / "ckpt", "--to", "tensorflow", status=cairn_cli.USAGE)
    assert "none (an empty node" in said and "f8 (elements of type float8_e8m0fnu)" in said
    convert(scratch / "orbax", scratch / "ckpt", "--to", "tensorflow", "--skip-unsupported")
    check_restored(scratch / "ckpt", {"a": np.ones(2)})
    assert "are options of TensorFlow" in convert(scratch / "orbax", scratch / "x.npz", "--names", status=cairn_cli.USAGE)
    assert "are options of TensorFlow" in convert(scratch / "orbax", scratch / "x.npz", "--no-latest", status=cairn_cli.USAGE)
    assert "already exists" in convert(scratch / "orbax", scratch / "ckpt", "--to", "tensorflow", "--skip-unsupported", status=cairn_cli.IO)


def test_strings(scratch):
    tf.raw_ops.SaveV2(prefix=str(scratch / "old"), tensor_names=["s", "t"], shape_and_slices=["", ""],
                      tensors=[tf.constant([b"a", b"", b"\x00\xff" * 5000]), tf.constant(b"one")])
    convert(scratch / "old", scratch / "new", "--to", "tensorflow", "--names", "--no-latest")
    for suffix in (".index", ".data-00000-of-00001"):
        assert (scratch / f"new{suffix}").read_bytes() == (scratch / f"old{suffix}").read_bytes()


def trained(scratch):
    """A Keras model with an optimizer that has moments."""
    keras.utils.set_random_seed(SEED % 2**31)
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3, name="first"), keras.layers.BatchNormalization(), keras.layers.Dense(2)])
    model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse")
    rng = np.random.default_rng(SEED)
    model.fit(rng.normal(size=(32, 4)), rng.normal(size=(32, 2)), epochs=2, verbose=0)
    return model


def test_keras_model_and_optimizer(scratch):
    model = trained(scratch)
    old = tf.train.Checkpoint(model=model, optimizer=model.optimizer).save(str(scratch / "ckpt"))
    convert(old, scratch / "new" / "ckpt-1", "--to", "tensorflow")
    convert(old, scratch / "cut" / "ckpt-1", "--to", "tensorflow", "--shard-bytes", "64")
    assert len(list((scratch / "cut").glob("*.data-*"))) > 3
    want = [v.numpy() for v in [*model.variables, *model.optimizer.variables]]
    for folder in ("new", "cut"):
        fresh = trained(scratch)
        fresh.set_weights([np.zeros_like(w) for w in fresh.get_weights()])
        status = tf.train.Checkpoint(model=fresh, optimizer=fresh.optimizer).restore(tf.train.latest_checkpoint(str(scratch / folder)))
        status.assert_consumed()
        have = [v.numpy() for v in [*fresh.variables, *fresh.optimizer.variables]]
        assert all(bytes_of(a) == bytes_of(b) for a, b in zip(have, want, strict=True))
    theirs, ours = tf.train.load_checkpoint(old), tf.train.load_checkpoint(str(scratch / "new" / "ckpt-1"))
    assert theirs.get_variable_to_shape_map() == ours.get_variable_to_shape_map()
    for key in theirs.get_variable_to_shape_map():
        assert bytes_of(theirs.get_tensor(key)) == bytes_of(ours.get_tensor(key)), key


def test_renamed_leaves_get_objects_anew(scratch):
    old = tf.train.Checkpoint(a=tf.Variable([1.0, 2.0]), b=tf.Variable(3)).save(str(scratch / "ckpt"))
    convert(old, scratch / "new" / "ckpt", "--to", "tensorflow", "--rename", "^a/=first/")
    fresh = tf.train.Checkpoint(first=tf.Variable([0.0, 0.0]), b=tf.Variable(0))
    fresh.restore(str(scratch / "new" / "ckpt")).assert_consumed()
    assert fresh.first.numpy().tolist() == [1.0, 2.0] and fresh.b.numpy() == 3


def test_dtype_is_cast(scratch):
    safetensors.numpy.save_file({"w": np.array([1.5, -2.25], np.float32)}, scratch / "x.safetensors")
    convert(scratch / "x.safetensors", scratch / "ckpt", "--to", "tensorflow", "--dtype", "bfloat16")
    check_restored(scratch / "ckpt", {"w": np.array([1.5, -2.25], ml_dtypes.bfloat16)})


def test_comes_back(scratch):
    """Orbax -> TensorFlow -> Orbax, and compared by Cairn itself."""
    tree = {"params": {"dense": {"kernel": np.arange(6, dtype=np.float32).reshape(2, 3)}}, "opt": [np.ones(3), np.int32(4) * np.ones(2, np.int32)]}
    ocp.PyTreeCheckpointer().save(scratch / "orbax", tree)
    convert(scratch / "orbax", scratch / "ckpt", "--to", "tensorflow", "--no-latest")
    cairn_cli.run("verify", scratch / "ckpt")
    convert(scratch / "ckpt", scratch / "back", "--to", "orbax")
    cairn_cli.run("diff", scratch / "orbax", scratch / "back")


def test_optimizer_slots_come_back_through_other_formats(scratch):
    """Their keys lie below the variable's own: no tree has that, but the path says what they were."""

    class Model(tf.Module):
        def __init__(self):
            super().__init__()
            self.w = tf.Variable([1.0, 2.0])

    def program():
        model, optimizer = Model(), tf.compat.v1.train.AdamOptimizer(0.1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(model.w * model.w)
        optimizer.apply_gradients([(tape.gradient(loss, model.w), model.w)])
        return model, optimizer

    model, optimizer = program()
    old = tf.train.Checkpoint(model=model, optimizer=optimizer).save(str(scratch / "old" / "ckpt"))
    convert(old, scratch / "orbax", "--to", "orbax")
    convert(scratch / "orbax", scratch / "new" / "ckpt-1", "--to", "tensorflow")
    names = [name for name, _ in tf.train.list_variables(str(scratch / "new" / "ckpt-1"))]
    assert sorted(names) == sorted(name for name, _ in tf.train.list_variables(old))
    fresh, other = program()
    fresh.w.assign([0.0, 0.0])
    other.get_slot(fresh.w, "m").assign([9.0, 9.0])
    tf.train.Checkpoint(model=fresh, optimizer=other).restore(str(scratch / "new" / "ckpt-1")).assert_consumed()
    assert bytes_of(fresh.w.numpy()) == bytes_of(model.w.numpy())
    assert bytes_of(other.get_slot(fresh.w, "m").numpy()) == bytes_of(optimizer.get_slot(model.w, "m").numpy())
