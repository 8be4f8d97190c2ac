"""TensorFlow: the TensorFlow of the row and Cairn read, bit for bit, what the other wrote."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import pytest
import tensorflow as tf

import cairn
import cairn.tensorflow

NAMES = "bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64"
NAMES += " complex64 complex128 bfloat16"
END = "/.ATTRIBUTES/VARIABLE_VALUE"
SHAPES = [(), (3,), (4, 5), (0, 2), (1, 1, 7)]


def value_of(name, shape):
    """Any bits, not-a-numbers among them."""
    dtype = np.dtype(tf.dtypes.as_dtype(name).as_numpy_dtype)
    drawn = np.random.default_rng(len(shape)).integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    return drawn[..., 0] % 2 == 1 if name == "bool" else drawn.view(dtype)[..., 0]


def values_of(name):
    return {f"v{number}": value_of(name, shape) for number, shape in enumerate(SHAPES)}


def same(found, expected):
    """Fails where types, shapes or bits differ. Either may be a tensor."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
    assert found.tobytes() == expected.tobytes()


def variables_of(values, zero=False):
    return {
        key: tf.Variable(tf.zeros_like(value) if zero else tf.constant(value))
        for key, value in values.items()
    }


@pytest.mark.parametrize("name", NAMES.split())
def test_types(tmp_path, name):
    values = values_of(name)
    theirs = tf.train.Checkpoint(**variables_of(values)).write(str(tmp_path / "theirs"))
    found = cairn.load(theirs)
    assert found.pop("_CHECKPOINTABLE_OBJECT_GRAPH")  # the objects of TensorFlow, as a string
    assert sorted(found) == sorted(values)
    ours = str(tmp_path / "ours")
    cairn.tensorflow.save(ours, values)
    reader = tf.train.load_checkpoint(ours)
    restored = variables_of(values, zero=True)
    tf.train.Checkpoint(**restored).restore(ours).assert_consumed()
    for key, value in values.items():
        same(found[key], value)
        same(reader.get_tensor(key + END), value)
        same(restored[key].numpy(), value)
    assert cairn.verify(theirs) and cairn.verify(ours)


def test_strings(tmp_path):
    values = [b"", b"text", b"\xff\x00", b"x" * 300]
    variable = tf.Variable(tf.constant(values))
    path = tf.train.Checkpoint(s=variable).write(str(tmp_path / "c"))
    found = cairn.load(path)["s"]
    assert [one.encode("utf-8", "surrogateescape") for one in found] == values


def test_a_prefix_a_folder_and_steps(tmp_path):
    counter = tf.Variable(0, dtype=tf.int64)
    manager = tf.train.CheckpointManager(
        tf.train.Checkpoint(counter=counter), str(tmp_path), max_to_keep=2
    )
    for number in (1, 2, 3):
        counter.assign(number)
        path = manager.save()
    same(cairn.load(path)["counter"], np.int64(3))
    same(cairn.load(tmp_path)["counter"], np.int64(3))
    same(cairn.load(tmp_path, step=2)["counter"], np.int64(2))


class Net(tf.Module):
    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(5)
        self.layers = [
            {"kernel": tf.Variable(rng.random((3, 4), np.float32)), "bias": tf.Variable(tf.ones(4))}
            for _ in range(2)
        ]
        self.step = tf.Variable(7, dtype=tf.int64)


def test_objects(tmp_path):
    net = Net()
    theirs = tf.train.Checkpoint(net=net).save(str(tmp_path / "theirs"))
    found = cairn.load(theirs)["net"]
    same(found["layers"]["0"]["kernel"], net.layers[0]["kernel"].numpy())
    same(found["layers"]["1"]["bias"], net.layers[1]["bias"].numpy())
    same(found["step"], net.step.numpy())
    layers = [{key: one.numpy() + 1 for key, one in layer.items()} for layer in net.layers]
    cairn.tensorflow.save(str(tmp_path / "ours"), {"net": {"layers": layers, "step": np.int64(8)}})
    tf.train.Checkpoint(net=net).restore(str(tmp_path / "ours")).assert_existing_objects_matched()
    for layer, expected in zip(net.layers, layers):
        for key, value in expected.items():
            same(layer[key].numpy(), value)
    assert net.step.numpy() == 8


def test_a_model_of_keras_and_its_optimizer(tmp_path):
    """A copy that Cairn writes in other files restores into the model that TensorFlow saved."""

    def trained(seed):
        tf.keras.utils.set_random_seed(seed)
        model = tf.keras.Sequential([tf.keras.layers.Dense(4), tf.keras.layers.Dense(1)])
        model.compile(tf.keras.optimizers.Adam(0.01), "mse")
        model.fit(np.ones((8, 3), np.float32), np.ones((8, 1), np.float32), epochs=1, verbose=0)
        return model

    model, other = trained(1), trained(2)
    theirs = tf.train.Checkpoint(model=model, optimizer=model.optimizer).write(
        str(tmp_path / "theirs")
    )
    arrays = [np.asarray(one) for one in flat(cairn.load(theirs))]
    for weight in model.get_weights():
        assert any(
            one.shape == weight.shape and one.tobytes() == weight.tobytes() for one in arrays
        )
    report = cairn.convert(theirs, tmp_path / "ours", to="tensorflow", shard_bytes=64)
    assert report
    tf.train.Checkpoint(model=other, optimizer=other.optimizer).read(
        str(tmp_path / "ours")
    ).assert_existing_objects_matched()
    for found, expected in zip(other.get_weights(), model.get_weights()):
        same(found, expected)


def flat(tree):
    for child in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(child, (dict, list, tuple)):
            yield from flat(child)
        else:
            yield child


def test_parts_of_a_variable_in_several_files(tmp_path):
    whole = np.arange(60.0, dtype=np.float32).reshape(10, 6)
    prefixes = []
    for rank in range(2):
        prefixes.append(str(tmp_path / f"part{rank}"))
        tf.raw_ops.SaveV2(
            prefix=prefixes[-1],
            tensor_names=["w"],
            shape_and_slices=[f"10 6 {5 * rank},5:-"],
            tensors=[tf.constant(whole[5 * rank : 5 * rank + 5])],
        )
    path = str(tmp_path / "merged")
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=prefixes, destination_prefix=path)
    same(cairn.load(path)["w"], whole)
    same(cairn.open(path)["w"][3:7, 1:4], whole[3:7, 1:4])
    policy = cairn.tensorflow.MaxShardSizePolicy(80)
    ours = str(tmp_path / "ours")
    cairn.tensorflow.save(ours, {"w": whole}, sharding_callback=policy)
    assert len(list(tmp_path.glob("ours.data-*"))) > 1
    same(tf.train.load_checkpoint(ours).get_tensor("w" + END), whole)
