"""TensorFlow checkpoints that Cairn writes: every byte is TensorFlow's for the same entries, and TensorFlow restores them in every way it has."""

import json
import os
import pathlib
import random
import shutil
import subprocess

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from google.protobuf import text_format
from tensorflow.core.protobuf import trackable_object_graph_pb2
from tensorflow.python.checkpoint import functional_saver
from tensorflow.python.training import checkpoint_state_pb2
import cairn_cli

TOOL = str(cairn_cli.TOOLS / "bundle_tool")
SEED = int(os.environ["CAIRN_SEED"])
ROUNDS = 150
SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Cairn's name -> TensorFlow's type.
DTYPES = {
    name: tf.dtypes.as_dtype(name)
    for name in ("bool int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 bfloat16 float32 float64 complex64 complex128 float8_e5m2 "
                 "float8_e4m3fn float8_e4m3fnuz float8_e4m3b11fnuz float8_e5m2fnuz int4 uint4 int2 uint2 float4_e2m1fn").split()
}
QUANTIZED = {"qint8": tf.qint8, "quint8": tf.quint8, "qint32": tf.qint32, "qint16": tf.qint16, "quint16": tf.quint16}


# ---- entries: what is to be stored, for TensorFlow and for Cairn ----
class Entry:
    """One tensor, or a slice of one."""

    def __init__(self, key, tensor, *, full_shape=None, origin=None, device=None):
        self.key = key if isinstance(key, bytes) else key.encode()
        self.tensor = tensor
        self.full_shape, self.origin, self.device = full_shape, origin, device

    @property
    def spec(self):
        """TensorFlow's shape_and_slice."""
        if self.origin is None:
            return ""
        extents = ":".join(f"{o},{n}" for o, n in zip(self.origin, self.tensor.shape))
        return " ".join(map(str, self.full_shape)) + " " + extents

    def job(self):
        out = {"key": self.key.hex(), "dtype": self.tensor.dtype.name, "size": 0, "shape": [int(n) for n in self.tensor.shape]}
        array = self.tensor.numpy()
        if self.tensor.dtype == tf.string:
            out["strings"] = [value.hex() for value in np.asarray(array, dtype=object).reshape(-1).tolist()]
        else:
            # NumPy has no quantized types; the bytes are those of the integers.
            out["hex"] = np.ascontiguousarray(array).view().tobytes().hex()
            out["size"] = array.dtype.itemsize
        if self.origin is not None:
            out |= {"full_shape": list(self.full_shape), "origin": list(self.origin)}
        if self.device is not None:
            out["device"] = self.device
        return out


def random_tensor(rng, name, shape):
    count = int(np.prod(shape))
    if name == "string":
        values = [rng.randbytes(rng.choice([0, 1, 5, 127, 128, 300])) for _ in range(count)]
        return tf.constant(np.array(values, dtype=object).reshape(shape), tf.string) if count else tf.zeros(shape, tf.string)
    dtype = (DTYPES | QUANTIZED)[name]
    data = np.frombuffer(rng.randbytes(count * 16), np.uint8)[: count * dtype.as_numpy_dtype(0).itemsize if dtype not in QUANTIZED.values() else None]
    if name == "bool":
        return tf.constant((data[:count] & 1).astype(bool).reshape(shape))
    if dtype in QUANTIZED.values():
        plain = {tf.qint8: tf.int8, tf.quint8: tf.uint8, tf.qint32: tf.int32, tf.qint16: tf.int16, tf.quint16: tf.uint16}[dtype]
        bits = random_tensor(rng, plain.name, shape)
        return tf.bitcast(bits, dtype)
    if name in ("int4", "uint4", "int2", "uint2"):
        low = {"int4": (-8, 8), "uint4": (0, 16), "int2": (-2, 2), "uint2": (0, 4)}[name]
        values = np.array([rng.randrange(*low) for _ in range(count)], dtype=np.int64).reshape(shape).astype(dtype.as_numpy_dtype)
        return tf.constant(values, dtype)
    if name == "float4_e2m1fn":
        return tf.constant((data[:count] & 15).view(ml_dtypes.float4_e2m1fn).reshape(shape), dtype)
    return tf.constant(data.view(dtype.as_numpy_dtype).reshape(shape), dtype)


def write(prefix, entries, like="write", status=0, **options):
    job = {"prefix": str(prefix), "like": like, "tensors": [entry.job() for entry in entries]} | options
    done = subprocess.run([TOOL], input=json.dumps(job), capture_output=True, text=True, timeout=120)
    assert done.returncode == status, done.stderr
    return done.stdout.split("\n")[:-1] if status == 0 else done.stderr


def tf_save(prefix, entries):
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=[e.key for e in entries], shape_and_slices=[e.spec for e in entries],
                      tensors=[e.tensor for e in entries])


def tf_save_parts(prefix, parts):
    """Each part is a data file, as saving by several tasks makes them."""
    temporary = pathlib.Path(f"{prefix}_temp")
    temporary.mkdir()
    names = [str(temporary / f"part-{i:05}-of-{len(parts):05}") for i in range(len(parts))]
    for name, entries in zip(names, parts):
        tf_save(name, entries)
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=names, destination_prefix=str(prefix), delete_old_dirs=True)


def files(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def folders(scratch):
    made = scratch / "theirs", scratch / "ours"
    for folder in made:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    return made


def same_files(theirs, ours):
    want, have = files(theirs), files(ours)
    assert sorted(have) == sorted(want)
    for name in want:
        assert have[name] == want[name], f"{name}: {have[name].hex()[:4000]}\n{want[name].hex()[:4000]}"


# ---- byte for byte ----
@pytest.mark.parametrize("name", [*DTYPES, *QUANTIZED, "string"])
def test_every_type(scratch, name):
    theirs, ours = folders(scratch)
    rng = random.Random(f"{SEED}-{name}")
    entries = [Entry(f"t/{i}", random_tensor(rng, name, shape)) for i, shape in enumerate([(5, 3), (), (0,), (2, 0, 3), (17,), (1, 1, 1)])]
    tf_save(theirs / "ckpt", entries)
    written = write(ours / "ckpt", entries)
    assert written == [str(ours / "ckpt.data-00000-of-00001"), str(ours / "ckpt.index")]
    same_files(theirs, ours)


def test_types_that_tensorflow_lacks(scratch):
    for name in ("float8_e3m4", "float8_e4m3", "float8_e8m0fnu", "variant"):
        job = {"prefix": str(scratch / "x"), "like": "write", "tensors": [{"key": b"k".hex(), "dtype": name, "size": 1, "shape": [0], "hex": ""}]}
        done = subprocess.run([TOOL], input=json.dumps(job), capture_output=True, text=True, timeout=60)
        assert done.returncode == 1 and f"tensor 'k': TensorFlow has no element type for {name}" in done.stderr
    assert not list(scratch.iterdir())


def random_key(rng):
    letters = ["a", "b", "/", ".", "é", "\x00", "ÿ", "kernel", " "]
    text = "".join(rng.choice(letters) for _ in range(rng.randrange(1, 12))).encode("latin-1" if rng.random() < 0.3 else "utf-8")
    return text


def random_boxes(rng, shape):
    """Boxes that share no element, made by cutting the whole again and again."""
    boxes = [([0] * len(shape), list(shape))]
    for _ in range(rng.randrange(0, 5)):
        at = rng.randrange(len(boxes))
        origin, extent = boxes[at]
        axis = rng.randrange(len(shape))
        if extent[axis] < 2:
            continue
        cut = rng.randrange(1, extent[axis])
        upper_origin, upper = list(origin), list(extent)
        upper_origin[axis] += cut
        upper[axis] -= cut
        lower = list(extent)
        lower[axis] = cut
        boxes[at] = (list(origin), lower)
        boxes.append((upper_origin, upper))
    if len(boxes) > 1 and rng.random() < 0.3:
        boxes.pop(rng.randrange(len(boxes)))
    rng.shuffle(boxes)
    return boxes


def random_entries(rng, most):
    entries, keys = [], set()
    while len(entries) < most:
        key = random_key(rng)
        # A name that is another's slice key would be a clash in TensorFlow, too.
        if key in keys or key.startswith(b"\x00"):
            continue
        keys.add(key)
        name = rng.choice([*DTYPES, "string"])
        shape = tuple(rng.choice([0, 1, 2, 3, 7, 70]) for _ in range(rng.randrange(0, 4)))
        whole = random_tensor(rng, name, shape)
        # No kernel of TensorFlow's slices these.
        if not shape or 0 in shape or name in ("int4", "uint4", "int2", "uint2", "float4_e2m1fn") or rng.random() < 0.6:
            entries.append(Entry(key, whole))
            continue
        for origin, extent in random_boxes(rng, shape):
            numpy = whole.numpy()[tuple(slice(o, o + n) for o, n in zip(origin, extent))]
            entries.append(Entry(key, tf.constant(numpy, whole.dtype), full_shape=shape, origin=origin))
    return entries


@pytest.mark.covers("tensorflow.raw_ops.SaveV2")
def test_random_entries(scratch):
    for i in range(ROUNDS):
        seed = f"{SEED}-{i}"
        rng = random.Random(seed)
        entries = random_entries(rng, rng.choice([1, 3, 20]))
        theirs, ours = folders(scratch)
        tf_save(theirs / "ckpt", entries)
        write(ours / "ckpt", entries, memory=rng.choice([1, 1000, 1 << 20]))
        try:
            same_files(theirs, ours)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None


@pytest.mark.covers("sharding.ShardingCallback", "sharding.ShardByTaskPolicy")
def test_random_entries_of_several_tasks(scratch):
    for i in range(ROUNDS // 3):
        seed = f"{SEED}-tasks-{i}"
        rng = random.Random(seed)
        tasks = rng.randrange(2, 5)
        entries = random_entries(rng, rng.randrange(tasks, 20))
        parts = [[] for _ in range(tasks)]
        for number, entry in enumerate(entries):
            task = number if number < tasks else rng.randrange(tasks)
            entry.device = f"/job:worker/replica:0/task:{task}/device:CPU:0"
            parts[task].append(entry)
        # Slices of one key are side by side in a shard.
        parts = [[e for key in dict.fromkeys(x.key for x in part) for e in part if e.key == key] for part in parts]
        theirs, ours = folders(scratch)
        tf_save_parts(theirs / "ckpt", parts)
        write(ours / "ckpt", entries)
        try:
            same_files(theirs, ours)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from None


def test_index_of_several_blocks(scratch):
    theirs, ours = folders(scratch)
    rng = random.Random(SEED)
    keys = {f"layer_{rng.randrange(10**6)}/{rng.randbytes(rng.randrange(60)).hex()}{SUFFIX}" for _ in range(9000)}
    entries = [Entry(key, tf.constant(np.float32(i))) for i, key in enumerate(keys)]
    # Keys of more than two blocks, and of nearly that, get blocks as TensorFlow gives them.
    for size in (262_100, 524_200, 524_288, 600_000):
        entries.append(Entry(f"{rng.randrange(10**6)}" + "k" * size, tf.constant(np.float32(size))))
    rng.shuffle(entries)
    tf_save(theirs / "ckpt", entries)
    write(ours / "ckpt", entries)
    assert (theirs / "ckpt.index").stat().st_size > 3 << 18
    same_files(theirs, ours)


# ---- merging ----
def merge(prefix, parts, status=0, **options):
    job = {"merge": [str(part) for part in parts], "prefix": str(prefix)} | options
    done = subprocess.run([TOOL], input=json.dumps(job), capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    return done.stderr


def test_merge(scratch):
    for i in range(ROUNDS // 3):
        seed = f"{SEED}-merge-{i}"
        rng = random.Random(seed)
        theirs, ours = folders(scratch)
        entries = random_entries(rng, rng.randrange(4, 16))
        count = rng.randrange(1, 4)
        parts = [entries[at::count] for at in range(count)]
        for number, part in enumerate(parts):
            (theirs / f"temp{number}").mkdir()
            tf_save(theirs / f"temp{number}" / "part", part)
        shutil.copytree(theirs, ours, dirs_exist_ok=True)
        delete = rng.random() < 0.5
        names = [f"temp{number}/part" for number in range(count)]
        tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[str(theirs / n) for n in names], destination_prefix=str(theirs / "ckpt"),
                                      delete_old_dirs=delete)
        merge(ours / "ckpt", [ours / n for n in names], delete_old_dirs=delete)
        left = [sorted(str(p.relative_to(folder)) for p in folder.rglob("*")) for folder in (theirs, ours)]
        assert left[0] == left[1], f"seed {seed}"
        for path in theirs.iterdir():
            assert path.is_dir() or path.read_bytes() == (ours / path.name).read_bytes(), f"seed {seed}: {path.name}"


def test_merge_of_merged(scratch):
    """Parts of several data files, and parts that are missing."""
    theirs, ours = folders(scratch)
    one = [Entry("a", tf.constant([1.0, 2.0])), Entry("b", tf.constant([b"x", b""]))]
    for folder in (theirs, ours):
        tf_save_parts(folder / "first", [[one[0]], [one[1]]])
        tf_save(folder / "second", [Entry("c", tf.constant(5))])
    names = ["second", "first", "missing"]
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=[str(theirs / n) for n in names], destination_prefix=str(theirs / "ckpt"),
                                  allow_missing_files=True)
    merge(ours / "ckpt", [ours / n for n in names], allow_missing_files=True)
    same_files(theirs, ours)


def test_merge_refuses_what_tensorflow_refuses(scratch):
    def both(entries_of_parts, **options):
        errors = []
        for folder in folders(scratch):
            names = []
            for number, entries in enumerate(entries_of_parts):
                names.append(str(folder / f"part{number}"))
                if entries:
                    tf_save(names[-1], entries)
            if folder.name == "theirs":
                with pytest.raises(tf.errors.OpError) as error:
                    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=names, destination_prefix=str(folder / "ckpt"), **options)
                errors.append(str(error.value).replace("theirs", "F"))
            else:
                before = files(folder)
                errors.append(merge(folder / "ckpt", names, status=1, **options).replace("ours", "F"))
                assert files(folder) == before, "what cannot be merged stays as it was"
        return errors

    x = Entry("x", tf.constant(1.0))
    upper = Entry("x", tf.constant([1.0]), full_shape=[2], origin=[0])
    theirs, ours = both([[x], [x]])
    assert "Duplicate tensor keyed by x encountered, when merging prefix: " in theirs
    assert "Duplicate tensor keyed by x encountered, when merging prefix: " in ours
    both([[x], [upper]])
    both([[upper], [upper]])
    theirs, ours = both([[x], []])
    assert "allow_missing_files was set to false and" in theirs and "allow_missing_files was set to false and" in ours
    theirs, ours = both([[], []], allow_missing_files=True)
    assert "At least one prefix checkpoint file must exist, but none existed." in theirs
    assert "At least one prefix checkpoint file must exist, but none existed." in ours


# ---- objects ----
def random_value(rng):
    """What a tf.Variable can be made of."""
    name = rng.choice(["float32", "float64", "int32", "int64", "bool", "bfloat16", "float16", "complex64", "uint8"])
    return random_tensor(rng, name, tuple(rng.choice([1, 2, 3, 0]) for _ in range(rng.randrange(0, 3))))


def random_tree(rng, depth=0):
    kind = rng.choice(["leaf", "dict", "list"]) if depth else "dict"
    if kind == "leaf" or depth > 3:
        return random_value(rng)
    if kind == "list":
        return [random_tree(rng, depth + 1) for _ in range(rng.randrange(1, 4))]
    # At the root names are attributes of the Checkpoint.
    names = ["kernel", "a", "layer_1", "Z"] + ([] if depth == 0 else ["odd/name.x", "..", ".S", "/", "ü", "a b"])
    return {name: random_tree(rng, depth + 1) for name in rng.sample(names, rng.randrange(1, 4))}


def leaves(tree, path=()):
    if isinstance(tree, (dict, list)):
        for key, child in tree.items() if isinstance(tree, dict) else enumerate(tree):
            yield from leaves(child, (*path, str(key)))
    else:
        yield path, tree


def variables(tree, make):
    if isinstance(tree, dict):
        return {key: variables(child, make) for key, child in tree.items()}
    if isinstance(tree, list):
        return [variables(child, make) for child in tree]
    return make(tree)


def key_of(path):
    return "/".join(step.replace(".", "..").replace("/", ".S") for step in path) + SUFFIX


def same(a, b):
    return a.dtype == b.dtype and a.shape == b.shape and np.array_equal(a.view(np.uint8) if a.ndim else a.reshape(1).view(np.uint8),
                                                                         b.view(np.uint8) if b.ndim else b.reshape(1).view(np.uint8))


def zeros(value):
    return tf.Variable(tf.zeros(value.shape, value.dtype))


def check_restored(prefix, tree, restore):
    fresh = variables(tree, zeros)
    restore(tf.train.Checkpoint(**fresh), prefix).assert_consumed()
    for (path, have), (_, want) in zip(leaves(fresh), leaves(tree), strict=True):
        assert np.array_equal(np.ascontiguousarray(have.numpy()).reshape(-1).view(np.uint8), np.ascontiguousarray(want.numpy()).reshape(-1).view(np.uint8)), path


@pytest.mark.covers("tensorflow.train.Checkpoint")
def test_objects_restore(scratch):
    for i in range(25):
        seed = f"{SEED}-objects-{i}"
        print("seed", seed)
        rng = random.Random(seed)
        tree = random_tree(rng)
        prefix = str(scratch / f"ckpt-{i}")
        entries = [Entry(key_of(path), value) for path, value in leaves(tree)]
        like = rng.choice(["save", "write"])
        options = {} if rng.random() < 0.5 else {"max_shard_size": 1000}
        written = write(prefix, entries, like=like, graph=True, **options)
        check_restored(prefix, tree, lambda c, p: c.restore(p) if like == "save" else c.read(p))
        reader = tf.train.load_checkpoint(prefix)
        shown = reader.get_variable_to_shape_map()
        assert sorted(shown) == sorted([e.key.decode() for e in entries] + [GRAPH_KEY] + (["save_counter" + SUFFIX] if like == "save" else []))
        assert all(pathlib.Path(path).exists() for path in written)
        if like == "save":
            assert tf.train.latest_checkpoint(str(scratch)) == prefix


def graph_of(prefix):
    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    graph.ParseFromString(tf.train.load_checkpoint(str(prefix)).get_tensor(GRAPH_KEY))
    return graph


def sorted_tree(tree):
    """As tf.train.Checkpoint(**tree) walks it: its own arguments sorted, other dicts as they are."""
    return dict(sorted(tree.items()))


def test_object_graph_is_numbered_as_tensorflow_does(scratch):
    for i in range(15):
        rng = random.Random(f"{SEED}-graph-{i}")
        tree = sorted_tree(random_tree(rng))
        like = rng.choice(["save", "write"])
        checkpoint = tf.train.Checkpoint(**variables(tree, tf.Variable))
        theirs = checkpoint.save(str(scratch / f"t{i}")) if like == "save" else checkpoint.write(str(scratch / f"t{i}"))
        write(scratch / f"o{i}", [Entry(key_of(path), value) for path, value in leaves(tree)], like=like, graph=True)
        want, have = graph_of(theirs), graph_of(scratch / f"o{i}")
        for graph in (want, have):
            for node in graph.nodes:
                for attribute in node.attributes:
                    attribute.full_name = ""
        assert have == want, f"seed {SEED}-graph-{i}"


def test_modules_restore(scratch):
    class Layer(tf.Module):
        def __init__(self, value):
            self.kernel = tf.Variable([[value, 2.0]])
            self.bias = tf.Variable([value])

    class Model(tf.Module):
        def __init__(self, value):
            self.layers = [Layer(value), Layer(value + 1)]
            self.head = Layer(value + 2)

    want = Model(3.0)
    names = {("model", "head"): want.head, ("model", "layers", "0"): want.layers[0], ("model", "layers", "1"): want.layers[1]}
    entries = [Entry(key_of((*path, name)), tf.constant(getattr(layer, name).numpy())) for path, layer in names.items() for name in ("kernel", "bias")]
    write(scratch / "ckpt", entries, like="save", graph=True)
    have = Model(0.0)
    tf.train.Checkpoint(model=have).restore(str(scratch / "ckpt")).assert_consumed()
    for a, b in zip(have.variables, want.variables, strict=True):
        assert np.array_equal(a.numpy(), b.numpy())


def test_names_restore(scratch):
    """Without a graph: tf.compat.v1.train.Saver and load_checkpoint go by name."""
    entries = [Entry("scope/w", tf.constant([1.0, 2.0])), Entry("b", tf.constant(5))]
    write(scratch / "ckpt", entries, like="write", graph=False)
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        w, b = tf.compat.v1.get_variable("scope/w", [2]), tf.compat.v1.get_variable("b", [], tf.int32)
        tf.compat.v1.train.Saver([w, b]).restore(session, str(scratch / "ckpt"))
        assert session.run([w, b])[0].tolist() == [1.0, 2.0] and session.run(b) == 5


@pytest.mark.covers("sharding.ShardingCallback")
def test_cut_tensors_restore(scratch):
    """Files of a largest size: TensorFlow puts the merged index, of the types for which it can."""
    for i in range(20):
        seed = f"{SEED}-cut-{i}"
        rng = random.Random(seed)
        entries = []
        for number in range(rng.randrange(1, 6)):
            name = rng.choice(["float32", "float64", "int32", "int64", "int16", "int8", "uint8", "bool", "bfloat16", "complex64", "complex128"])
            shape = tuple(rng.choice([1, 2, 5, 9, 0]) for _ in range(rng.randrange(0, 4)))
            entries.append(Entry(f"t{number}{SUFFIX}", random_tensor(rng, name, shape)))
        size = rng.choice([16, 40, 100, 1000])
        written = write(scratch / f"c{i}", entries, like="write", graph=True, max_shard_size=size, memory=rng.choice([1, 1 << 20]))
        reader = tf.train.load_checkpoint(str(scratch / f"c{i}"))
        for entry in entries:
            have = np.ascontiguousarray(reader.get_tensor(entry.key.decode()))
            want = np.ascontiguousarray(entry.tensor.numpy())
            assert have.shape == want.shape and have.tobytes() == want.tobytes(), f"seed {seed}: {entry.key}"
        largest = sorted(os.path.getsize(path) for path in written if ".data-" in path)
        # The object graph is not counted.
        assert all(bytes_ <= size for bytes_ in largest[:-1]), f"seed {seed}: {largest}"


class SaveSpecs(tf.train.experimental.ShardByTaskPolicy):
    """Notes what TensorFlow tells a callback of the tensors to be saved."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __call__(self, shardable_tensors):
        for one in shardable_tensors:
            spec = one._tensor_save_spec
            assert (spec.name, spec.dtype, spec.slice_spec.strip()) == (one.name, one.dtype, one.slice_spec)
            assert tf.DeviceSpec.from_string(spec.device) == one.device if isinstance(spec.device, str) else spec.device == one.device
            self.seen.append({"key": one.checkpoint_key, "slice_spec": one.slice_spec, "name": spec.name, "dtype": spec.dtype.name,
                              "shape": list(spec.tensor.shape), "device": one.device.to_string()})
        return super().__call__(shardable_tensors)


@pytest.mark.covers(
    "sharding.ShardableTensor",
    note="`tensor_save_spec` has no slice spec: `slice_spec` holds it.",
)
def test_callbacks_get_the_same_save_specs(scratch):
    """The description of every tensor that a callback gets: of variables, and of slices of larger ones."""
    rng = random.Random(f"{SEED}-specs")
    entries = []
    for number in range(40):
        name = rng.choice([*DTYPES, "string"])
        shape = tuple(rng.choice([1, 2, 3]) for _ in range(rng.randrange(0, 4)))
        part = {}
        if shape and rng.random() < 0.4:
            origin = [rng.randrange(3) for _ in shape]
            part = {"full_shape": [o + n + rng.randrange(2) for o, n in zip(origin, shape)], "origin": origin}
        entries.append(Entry(f"t{number}{SUFFIX}", random_tensor(rng, name, shape), **part))
    callback = SaveSpecs()
    tensors = {None: {e.key.decode(): {e.spec: e.tensor} for e in entries}}
    functional_saver.MultiDeviceSaver(tensors).save(str(scratch / "theirs"), tf.train.CheckpointOptions(experimental_sharding_callback=callback))
    device = callback.seen[0]["device"]
    for e in entries:
        e.device = device
    shown = [json.loads(line) for line in write(scratch / "ours", entries, save_specs=True) if line.startswith("{")]
    of_key = lambda seen: sorted(seen, key=lambda one: one["key"])
    assert of_key(shown) == of_key(callback.seen) and len(shown) == len(entries)
    assert any(one["slice_spec"] for one in shown) and device


# ---- what is there already ----
def test_replaces_only_when_asked(scratch):
    old = [Entry("a", tf.constant([1.0])), Entry("b", tf.constant([2.0]), device="/job:worker/task:1")]
    new = [Entry("a", tf.constant([3.0]))]
    write(scratch / "ckpt", old)
    before = files(scratch)
    assert sorted(before) == ["ckpt.data-00000-of-00002", "ckpt.data-00001-of-00002", "ckpt.index"]
    assert "already exists" in write(scratch / "ckpt", new, status=1)
    assert files(scratch) == before
    write(scratch / "ckpt", new, replace=True)
    assert sorted(files(scratch)) == ["ckpt.data-00000-of-00001", "ckpt.index"], "data files of the old one are gone"
    assert tf.train.load_checkpoint(str(scratch / "ckpt")).get_tensor("a").tolist() == [3.0]


# ---- the file that names the latest ----
def test_state_is_tensorflows(scratch):
    theirs, ours = folders(scratch)
    tf.train.Checkpoint(a=tf.Variable(1.0)).save(str(theirs / "ckpt"))
    write(ours / "ckpt-1", [Entry("a" + SUFFIX, tf.constant(1.0))], like="save", graph=True)
    assert (ours / "checkpoint").read_bytes() == (theirs / "checkpoint").read_bytes()
    assert tf.train.latest_checkpoint(str(ours)) == str(ours / "ckpt-1")


@pytest.mark.covers(
    "tensorflow.train.CheckpointManager",
    note="A save adds its checkpoint to the state of a manager that is there.",
)
def test_state_of_a_manager_is_kept_up(scratch):
    checkpoint = tf.train.Checkpoint(a=tf.Variable(1.0))
    manager = tf.train.CheckpointManager(checkpoint, str(scratch), max_to_keep=5)
    manager.save(), manager.save()
    write(scratch / "converted", [Entry("a" + SUFFIX, tf.constant(7.0))], like="save", graph=True)
    fresh = tf.train.Checkpoint(a=tf.Variable(0.0))
    manager = tf.train.CheckpointManager(fresh, str(scratch), max_to_keep=5)
    assert [os.path.basename(p) for p in manager.checkpoints] == ["ckpt-1", "ckpt-2", "converted"]
    fresh.restore(manager.latest_checkpoint).assert_consumed()
    assert fresh.a.numpy() == 7.0


def test_another_file_of_that_name_is_not_overwritten(scratch):
    (scratch / "checkpoint").write_bytes(b"\x80\x02 weights of another program")
    assert "Cairn would have to overwrite it" in write(scratch / "ckpt", [Entry("a" + SUFFIX, tf.constant(1.0))], like="save", graph=True, status=1)
    assert sorted(files(scratch)) == ["checkpoint"]


def test_states_are_read_as_tensorflow_reads_them(scratch):
    rng = random.Random(SEED)
    path = scratch / "checkpoint"
    for _ in range(60):
        state = checkpoint_state_pb2.CheckpointState()
        text = lambda: "".join(rng.choice("aé€\U0001f600\t\n\"'\\\x01/ -") for _ in range(rng.randrange(1, 8)))
        state.model_checkpoint_path = text()
        state.all_model_checkpoint_paths.extend(text() for _ in range(rng.randrange(4)))
        state.all_model_checkpoint_timestamps.extend(rng.choice([rng.uniform(0, 2e9), float(rng.randrange(10)), rng.random() * 1e-9]) for _ in range(rng.randrange(4)))
        state.last_preserved_timestamp = rng.choice([0.0, rng.uniform(0, 2e9)])
        spelled = text_format.MessageToString(state)
        path.write_text(rng.choice([spelled, text_format.MessageToString(state, as_utf8=False), text_format.MessageToString(state, as_one_line=True)]))
        done = subprocess.run([TOOL], input=json.dumps({"state": str(path)}), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, (done.stderr, path.read_text())
        shown, again = done.stdout.split("\n", 1)
        have = json.loads(shown)
        assert have["path"] == state.model_checkpoint_path and have["paths"] == list(state.all_model_checkpoint_paths)
        assert have["timestamps"] == list(state.all_model_checkpoint_timestamps) and have["last"] == state.last_preserved_timestamp
        assert again == spelled
