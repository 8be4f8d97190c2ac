"""cairn.tensorflow beside tf.train.experimental: the same callback in both, over the same tensors."""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import pytest

import cairn
import cairn.tensorflow as ours

tf = pytest.importorskip("tensorflow")
from tensorflow.python.checkpoint.sharding import sharding_policies, sharding_util  # noqa: E402

DTYPES = ["float32", "float64", "bfloat16", "int8", "int64", "bool", "complex64"]
MEMBERS = ["_tensor_save_spec", "tensor", "dtype", "device", "name", "shape", "slice_spec", "checkpoint_key", "trackable"]


def drawn(rng):
    """The arguments of random ShardableTensors."""
    made = []
    for i in range(int(rng.integers(1, 7))):
        shape = [int(n) for n in rng.integers(1, 12, int(rng.integers(0, 4)))]
        if len(shape) < 2 and rng.random() < 0.2:
            texts = np.array([b"x" * int(n) for n in rng.integers(0, 9, int(np.prod(shape, dtype=int)))], object).reshape(shape)
            value = tf.constant(texts, tf.string, shape)
        else:
            value = tf.cast(tf.constant(rng.integers(0, 2, shape)), tf.as_dtype(str(rng.choice(DTYPES))))
        spec = ""
        if shape and rng.random() < 0.25:
            origin = [int(n) for n in rng.integers(0, 5, len(shape))]
            full = [o + n + 1 for o, n in zip(origin, shape)]
            spec = ours.slice_spec_text(full, origin, shape)
        made.append({"_tensor_save_spec": None, "tensor": value, "dtype": value.dtype, "device": tf.DeviceSpec.from_string(""), "name": f"n{i}:0",
                     "shape": value.shape, "slice_spec": spec, "checkpoint_key": f"k{i}", "trackable": None})
    return made


def plain(shards):
    return [[(key, [(spec, tf.io.serialize_tensor(part).numpy()) for spec, part in slices.items()]) for key, slices in shard.items()] for shard in shards]


def bytes_in(given):
    return sum(len(b"".join(np.ravel(one["tensor"].numpy()).tolist())) if one["dtype"] == tf.string else one["dtype"].size * int(np.prod(one["shape"])) for one in given)


@pytest.mark.parametrize("seed", range(60))
def test_policies_make_tensorflows_shards(seed):
    given = drawn(np.random.default_rng(seed))
    largest = max(max([one["dtype"].size * int(np.prod(one["shape"])) // max([1, *one["shape"]]) if one["dtype"] != tf.string else 9]) for one in given)
    limit = max(largest, bytes_in(given) // (seed % 4 + 1), 1)
    found = []
    for module, policies in ((ours, ours), (sharding_util, sharding_policies)):
        tensors = [module.ShardableTensor(**one) for one in given]
        options = {"like_tensorflow": True} if module is ours else {}
        policy = policies.MaxShardSizePolicy(limit, **options)
        shards = policy(tensors)
        module.validate_shards(policies.ShardByTaskPolicy()(tensors), tensors, "d")
        found.append((plain(shards), plain(policies.ShardByTaskPolicy()(tensors)), policy.description, policies.ShardByTaskPolicy().description))
    assert found[0] == found[1]
    cut = ours.MaxShardSizePolicy(limit)
    tensors = [ours.ShardableTensor(**one) for one in given]
    ours.validate_shards(cut(tensors), tensors, cut.description)  # TensorFlow's function refuses parts


def test_tensors_are_described_as_by_tensorflow():
    assert [field.name for field in ours._FIELDS] == MEMBERS
    given = drawn(np.random.default_rng(1))[0]
    mine, theirs = ours.ShardableTensor(**given), sharding_util.ShardableTensor(**given)
    assert repr(mine) == repr(theirs) and hash(mine) == hash(theirs)
    with pytest.raises(AttributeError):
        mine.name = "x"


def callbacks(base):
    class OneShard(base):
        def __init__(self, number=0):
            self.number = number

        @property
        def description(self):
            return "Place all tensors in a single shard."

        def __call__(self, shardable_tensors):
            shard = {}
            for one in shardable_tensors:
                shard.setdefault(one.checkpoint_key, {})[one.slice_spec] = one.tensor
            return [shard]

    class ByLetter(OneShard):
        description = "A shard for each first letter."

        def __call__(self, shardable_tensors):
            shards = {}
            for one in shardable_tensors:
                shards.setdefault(one.checkpoint_key[0], {}).setdefault(one.checkpoint_key, {})[one.slice_spec] = one.tensor
            return list(shards.values())

    class Rows(OneShard):
        description = "A shard for each row."

        def __call__(self, shardable_tensors):
            shards = []
            for one in shardable_tensors:
                if len(one.shape) != 2:
                    shards.append({one.checkpoint_key: {one.slice_spec: one.tensor}})
                    continue
                rows, columns = one.shape
                for i in range(rows):
                    spec = f"{rows} {columns} {i},1:0,{columns}"
                    shards.append({one.checkpoint_key: {spec: one.tensor[i : i + 1]}})
            return shards

    return OneShard, ByLetter, Rows


def test_callbacks_hash_and_compare_as_in_tensorflow():
    (mine, *_), (theirs, *_) = callbacks(ours.ShardingCallback), callbacks(tf.train.experimental.ShardingCallback)
    for a, b in ((mine(3), theirs(3)), (ours.MaxShardSizePolicy(7), sharding_policies.MaxShardSizePolicy(7)), (ours.ShardByTaskPolicy(), sharding_policies.ShardByTaskPolicy())):
        assert hash(a) == hash(b) and a == a and b == b
    assert mine(3) != mine(3) and theirs(3) != theirs(3)
    for base in (ours.ShardingCallback, tf.train.experimental.ShardingCallback):
        with pytest.raises(TypeError):
            base()


# ---- saves ----

# In the order of the objects, which is TensorFlow's.
TREE = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "w": np.ones((3, 2), np.int8), "z": {"c": np.arange(4, dtype=np.int64), "d": np.float32(2.5)}}


def tensorflows(tree, name=""):
    if isinstance(tree, dict):
        return {key: tensorflows(child, f"{name}/{key}".strip("/")) for key, child in tree.items()}
    return tf.Variable(tree, name=name)


def contents(folder):
    return {path.name: path.read_bytes() for path in pathlib.Path(folder).iterdir()}


@pytest.mark.parametrize("number", [None, 0, 1, 2, "ShardByTaskPolicy", 12], ids=str)
def test_a_save_calls_a_callback_as_tensorflow_does(tmp_path, number):
    def callback(module, base):
        if number is None:
            return None
        if number == "ShardByTaskPolicy":
            return module.ShardByTaskPolicy()
        return callbacks(base)[number]() if number < 3 else module.MaxShardSizePolicy(number)

    (tmp_path / "theirs").mkdir()
    options = tf.train.CheckpointOptions(experimental_sharding_callback=callback(sharding_policies, tf.train.experimental.ShardingCallback))
    tf.train.Checkpoint(**tensorflows(TREE)).write(str(tmp_path / "theirs" / "c"), options=options)
    files = ours.save(tmp_path / "ours" / "c", TREE, latest=False, sharding_callback=callback(ours, ours.ShardingCallback))
    found, expected = contents(tmp_path / "ours"), contents(tmp_path / "theirs")
    assert sorted(found) == sorted(expected) == sorted(os.path.basename(one) for one in files)
    assert {name: len(data) for name, data in found.items()} == {name: len(data) for name, data in expected.items()}
    assert {name for name in found if found[name] != expected[name]} == set()
    fresh = tensorflows({key: value if isinstance(value, dict) else np.zeros_like(value) for key, value in TREE.items()})
    tf.train.Checkpoint(**fresh).read(str(tmp_path / "ours" / "c")).assert_consumed()
    np.testing.assert_array_equal(fresh["a"].numpy(), TREE["a"])
    loaded = cairn.load(tmp_path / "ours" / "c")
    np.testing.assert_array_equal(loaded["w"], TREE["w"])


def test_latest_and_names(tmp_path):
    ours.save(tmp_path / "c", TREE)
    assert tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "c")
    with pytest.raises(FileExistsError):
        ours.save(tmp_path / "c", TREE)
    ours.save(tmp_path / "c", {"s": ["x", b"y"], "n": 3}, overwrite=True, object_graph=False)
    reader = tf.train.load_checkpoint(str(tmp_path / "c"))
    assert reader.get_tensor("s/1/.ATTRIBUTES/VARIABLE_VALUE") == b"y" and reader.get_tensor("n/.ATTRIBUTES/VARIABLE_VALUE") == 3
    assert sorted(reader.get_variable_to_shape_map()) == [f"{key}/.ATTRIBUTES/VARIABLE_VALUE" for key in ("n", "s/0", "s/1")]


def test_the_tensors_of_a_save(tmp_path):
    seen = []

    class Looks(callbacks(ours.ShardingCallback)[0]):
        def __call__(self, shardable_tensors):
            seen.extend(shardable_tensors)
            return super().__call__(shardable_tensors)

    ours.save(tmp_path / "c", TREE | {"t": "text"}, sharding_callback=Looks())
    found = {one.checkpoint_key: one for one in seen}
    np.testing.assert_array_equal(found["a/.ATTRIBUTES/VARIABLE_VALUE"].tensor, TREE["a"])
    assert found["z/c/.ATTRIBUTES/VARIABLE_VALUE"].dtype == np.int64 and found["w/.ATTRIBUTES/VARIABLE_VALUE"].shape == (3, 2)
    assert found["t/.ATTRIBUTES/VARIABLE_VALUE"].tensor.item() == "text" and found["_CHECKPOINTABLE_OBJECT_GRAPH"].shape == ()
    assert found["a/.ATTRIBUTES/VARIABLE_VALUE"]._tensor_save_spec.tensor is found["a/.ATTRIBUTES/VARIABLE_VALUE"].tensor
    with pytest.raises(ValueError, match="read-only"):
        found["a/.ATTRIBUTES/VARIABLE_VALUE"].tensor[:] = 0


def wrong(change):
    """A callback that changes the first tensor, and whether TensorFlow refuses that, too."""

    def made(base):
        class Wrong(callbacks(base)[0]):
            def __call__(self, shardable_tensors):
                [shard] = super().__call__(shardable_tensors)
                key = next(iter(shard))
                change(shard, key)
                return [shard]

        return Wrong()

    return made


CHANGES = {
    "missing": (lambda shard, key: shard.pop(key), RuntimeError, "not found in the checkpoint shards"),
    "another key": (lambda shard, key: shard.update(x=shard[key]), RuntimeError, "not originally in the object graph"),
    "shape": (lambda shard, key: shard[key].update({"": shard[key][""][:1]}), RuntimeError, "altered shape"),
    "dtype": (lambda shard, key: shard[key].update({"": np.asarray(shard[key][""]).astype(np.float64)}), RuntimeError, "altered dtype"),
    "values": (lambda shard, key: shard[key].update({"": shard[key][""] + 1}), ValueError, "changed values"),
    "an error": (lambda shard, key: 1 / 0, ZeroDivisionError, "division"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_wrong_callbacks_are_refused(tmp_path, name):
    change, kind, message = CHANGES[name]
    with pytest.raises(kind, match=message):
        ours.save(tmp_path / "c", {"a": TREE["a"]}, object_graph=False, sharding_callback=wrong(change)(ours.ShardingCallback))
    assert not list(tmp_path.iterdir())
    if kind is RuntimeError:  # the same words in validate_shards
        value = tf.constant(TREE["a"])
        given = {"_tensor_save_spec": None, "tensor": value, "dtype": value.dtype, "device": tf.DeviceSpec.from_string(""), "name": "a", "shape": value.shape,
                 "slice_spec": "", "checkpoint_key": "a/.ATTRIBUTES/VARIABLE_VALUE", "trackable": None}
        texts = []
        for module in (ours, sharding_util):
            shard = {given["checkpoint_key"]: {"": value}}
            change(shard, given["checkpoint_key"])
            if name == "dtype":
                shard[given["checkpoint_key"]][""] = tf.cast(value, tf.float64)
            with pytest.raises(RuntimeError) as error:
                module.validate_shards([shard], [module.ShardableTensor(**given)], "d")
            texts.append(str(error.value).partition("slice_spec: {")[0])  # there, values are shown
        assert texts[0] == texts[1]


def test_other_types_of_callbacks(tmp_path):
    with pytest.raises(ValueError):
        tf.train.CheckpointOptions(experimental_sharding_callback=lambda tensors: [])
    with pytest.raises(ValueError, match="must be a ShardingCallback"):
        ours.save(tmp_path / "c", TREE, sharding_callback=lambda tensors: [])
    with pytest.raises(ValueError):
        ours.save(tmp_path / "c", {"a": None})
    with pytest.raises(ValueError):
        ours.MaxShardSizePolicy(0)([])


@pytest.mark.parametrize("text", ["", "/job:w/task:3", "/job:a/replica:0/task:1/device:CPU:0", "/task:x", "nonsense", "/job:w/device:GPU:*"])
def test_tasks_of_devices(text):
    found = []
    for call in (ours.device_task, lambda device: tf.DeviceSpec.from_string(device).task):
        try:
            found.append(call(text))
        except ValueError as error:
            found.append(str(error))
    assert found[0] == found[1]


def test_warnings(caplog):
    given = drawn(np.random.default_rng(3))[0] | {"tensor": tf.constant(b"x" * 40), "dtype": tf.string, "shape": tf.TensorShape([]), "slice_spec": ""}
    texts = []
    for module, policies in ((ours, ours), (sharding_util, sharding_policies)):
        caplog.clear()
        with caplog.at_level("WARNING"):
            policies.MaxShardSizePolicy(10)([module.ShardableTensor(**given)])
        texts.append([record.getMessage() for record in caplog.records])
    assert texts[0] == texts[1] and len(texts[0]) == 1
