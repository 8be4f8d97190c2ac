"""What TensorFlow saves, Cairn reads: every type, slices, strings, both byte orders, objects; and what is damaged is noticed."""

import io
import json
import os
import shutil

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import numpy as np
import pytest
import tensorflow as tf

import bundle_bytes
import cairn_cli

PLAIN = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
SMALL = ["float8_e5m2", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2fnuz", "int4", "uint4", "int2", "uint2", "float4_e2m1fn"]
# TensorFlow cannot put slices of the others together.
STITCHED = ["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "bool", "complex64", "complex128", "bfloat16"]
FRESH = int(os.environ["CAIRN_SEED"])


def dtype_of(name):
    return getattr(tf.dtypes, name, None) or getattr(tf.dtypes.experimental, name)


def random_value(rng, name, shape):
    if name == "string":
        strings = [rng.bytes(int(rng.integers(0, 400 if rng.random() < 0.2 else 12))) for _ in range(int(np.prod(shape)))]
        return np.array(strings + [None], dtype=object)[:-1].reshape(shape)
    numpy_type = dtype_of(name).as_numpy_dtype
    if name == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    raw = np.frombuffer(rng.bytes(int(np.prod(shape)) * np.dtype(numpy_type).itemsize), np.uint8)
    if name in SMALL[5:]:
        raw = raw & (3 if name.endswith("2") else 15)
    return raw.copy().view(numpy_type).reshape(shape)


def random_shape(rng, least=0):
    return tuple(int(n) for n in rng.integers(0 if rng.random() < 0.1 and not least else 1, 9, rng.integers(least, 5)))


def constant(name, value):
    return tf.constant(value.tolist() if name == "string" and value.size else value, dtype_of(name), shape=value.shape)


def save(prefix, parts):
    """parts: (key, slice, tensor)."""
    keys, specs, tensors = zip(*parts)
    tf.raw_ops.SaveV2(prefix=str(prefix), tensor_names=list(keys), shape_and_slices=list(specs), tensors=list(tensors))


def random_cuts(rng, shape):
    """Boxes that tile a shape."""
    boxes = [[(0, n) for n in shape]]
    for _ in range(rng.integers(0, 5)):
        box = boxes.pop(int(rng.integers(len(boxes))))
        axis = int(rng.integers(len(shape)))
        start, length = box[axis]
        if length > 1:
            cut = int(rng.integers(1, length))
            boxes += [box[:axis] + [(start, cut)] + box[axis + 1 :], box[:axis] + [(start + cut, length - cut)] + box[axis + 1 :]]
        else:
            boxes.append(box)
    return boxes


def spec_of(shape, box):
    return " ".join(map(str, shape)) + " " + ":".join(f"{start},{length}" for start, length in box)


def as_stored(value):
    return np.ascontiguousarray(value).tobytes()


def shown_strings(value):
    """The strings as `cairn cat` shows an array of them."""
    return [bytes(b) for b in value.reshape(-1)]


def shown_shape(name, shape):
    return list(shape) if name != "string" or shape else None


def check_value(prefix, key, name, value):
    if name != "string":
        assert cairn_cli.cat(prefix, key) == as_stored(value), (key, name, value.shape)
    elif value.shape == ():
        assert cairn_cli.cat(prefix, key) == value.item(), key
    else:
        text = cairn_cli.run("cat", prefix, key).stdout.decode()
        for string in shown_strings(value)[:1000]:
            plain = string.decode("ascii", errors="ignore")
            if plain.isalnum() and len(plain) == len(string):
                assert f"'{plain}'" in text


@pytest.mark.covers("tensorflow.train.load_checkpoint")
@pytest.mark.parametrize("name", PLAIN + SMALL + ["string"])
def test_reads_every_type(scratch, name):
    rng = np.random.default_rng(7)
    values = {f"v{i}": random_value(rng, name, shape) for i, shape in enumerate([(), (3,), (4, 5), (0, 2), (1, 1, 7), (300, 41)])}
    save(scratch / "ckpt", [(key, "", constant(name, value)) for key, value in values.items()])
    listed = {entry["name"]: entry for entry in cairn_cli.ls(scratch / "ckpt")}
    assert sorted(listed) == sorted(values)
    for key, value in values.items():
        assert (listed[key]["dtype"], listed[key]["shape"]) == (name, shown_shape(name, value.shape))
        check_value(scratch / "ckpt", key, name, value)
    assert cairn_cli.verify(scratch / "ckpt")["findings"] == []


def write_random(rng, folder):
    """Several bundles with slices, merged into one; {key: (type, value)}."""
    values, parts = {}, []
    for i in range(rng.integers(1, 9)):
        name = str(rng.choice(PLAIN + SMALL + ["string"]))
        key = rng.choice(["a/", "b/c/", ""]) + f"t{i}" + rng.choice(["/.ATTRIBUTES/VARIABLE_VALUE", ""])
        if rng.random() < 0.5 and name in STITCHED:
            value = random_value(rng, name, tuple(int(n) for n in rng.integers(1, 9, rng.integers(1, 4))))
            for box in random_cuts(rng, value.shape):
                inside = tuple(slice(start, start + length) for start, length in box)
                parts.append((key, spec_of(value.shape, box), constant(name, value[inside])))
        else:
            value = random_value(rng, name, random_shape(rng))
            parts.append((key, "", constant(name, value)))
        values[key] = (name, value)
    order = rng.permutation(len(parts))
    files = np.array_split(order, min(len(parts), int(rng.integers(1, 5))))
    prefixes = []
    (folder / "parts").mkdir()
    for number, chosen in enumerate(files):
        prefixes.append(str(folder / "parts" / f"p{number}"))
        save(prefixes[-1], [parts[i] for i in chosen])
    tf.raw_ops.MergeV2Checkpoints(checkpoint_prefixes=prefixes, destination_prefix=str(folder / "ckpt"))
    return values


@pytest.mark.covers("tensorflow.train.load_checkpoint", "tensorflow.raw_ops.RestoreV2")
@pytest.mark.parametrize("seed", [*range(10), *range(FRESH, FRESH + 30)], ids=lambda n: "fresh" if n >= 10 else str(n))
def test_reads_random_checkpoints(scratch, seed):
    values = write_random(np.random.default_rng(seed), scratch)
    reader = tf.train.load_checkpoint(str(scratch / "ckpt"))
    assert sorted(entry["name"] for entry in cairn_cli.ls(scratch / "ckpt")) == sorted(values)
    for key, (name, value) in values.items():
        if name in PLAIN:  # TensorFlow's reader has no others
            assert as_stored(reader.get_tensor(key)) == as_stored(value)
        check_value(scratch / "ckpt", key, name, value)
    assert cairn_cli.verify(scratch / "ckpt")["findings"] == []


@pytest.mark.parametrize("seed", [*range(5), *range(FRESH, FRESH + 15)], ids=lambda n: "fresh" if n >= 5 else str(n))
def test_reads_parts_of_what_is_in_slices(scratch, seed):
    rng = np.random.default_rng(seed)
    values = {key: found for key, found in write_random(rng, scratch).items() if found[0] != "string" and found[1].ndim and found[1].size}
    for key, (name, value) in values.items():
        chosen = [sorted(int(n) for n in rng.integers(0, extent + 1, 2)) for extent in value.shape]
        chosen = [(low, high if high > low else low + 1 if low < extent else low) for (low, high), extent in zip(chosen, value.shape)]
        text = ",".join(f"{low}:{high}" for low, high in chosen)
        expected = value[tuple(slice(low, high) for low, high in chosen)]
        assert cairn_cli.cat(scratch / "ckpt", key, "--slice", text) == as_stored(expected), (key, text)


def test_reads_the_other_byte_order(scratch):
    rng = np.random.default_rng(3)
    values = {name: random_value(rng, name, (3, 4)) for name in PLAIN + ["string"]}
    save(scratch / "little", [(name, "", constant(name, value)) for name, value in values.items()])
    bundle_bytes.to_big_endian(scratch / "little", scratch / "big")
    reader = tf.train.load_checkpoint(str(scratch / "big"))
    for name, value in values.items():
        if name != "string":
            assert as_stored(reader.get_tensor(name)) == as_stored(value), name
        else:
            assert (reader.get_tensor(name) == value).all()
        check_value(scratch / "big", name, name, value)
    assert cairn_cli.verify(scratch / "big")["findings"] == []
    assert cairn_cli.run("diff", scratch / "big", scratch / "little").returncode == 0


@pytest.mark.parametrize("per_block,interval", [(1, 1), (3, 2), (10**9, 1), (100, 16)])
def test_reads_whatever_blocks_an_index_has(scratch, per_block, interval):
    values = {f"layer{i}/w": np.full((2,), i, np.int32) for i in range(300)}
    save(scratch / "ckpt", [(key, "", tf.constant(value)) for key, value in values.items()])
    entries = bundle_bytes.read_table(scratch / "ckpt.index")
    bundle_bytes.write_table(scratch / "ckpt.index", entries, per_block, interval)
    assert len(tf.train.list_variables(str(scratch / "ckpt"))) == 300
    assert [entry["name"] for entry in cairn_cli.ls(scratch / "ckpt")] == sorted(values)
    assert cairn_cli.cat(scratch / "ckpt", "layer299/w") == as_stored(values["layer299/w"])


class Layer(tf.Module):
    def __init__(self):
        super().__init__()
        self.kernel = tf.Variable(tf.random.normal([3, 4]))
        self.bias = tf.Variable(tf.zeros([4]))


class Model(tf.Module):
    def __init__(self):
        super().__init__()
        self.layer1 = Layer()
        self.blocks = [Layer(), Layer()]
        self.named = {"a/b.c": Layer()}
        self.shared = self.layer1


def keras_checkpoint(folder, fit=True):
    import keras

    # Named, because the names keras finds count the models of the process.
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, name="layer1"), keras.layers.Dense(2, name="layer2")], name="net")
    optimizer = keras.optimizers.Adam(0.1, name="adam")
    model.compile(optimizer=optimizer, loss="mse")
    if fit:
        rng = np.random.default_rng(0)
        model.fit(rng.random((8, 4)), rng.random((8, 2)), verbose=0)
    checkpoint = tf.train.Checkpoint(model=model, optimizer=optimizer)
    return model, checkpoint.save(str(folder / "ckpt"))


def check_against_tensorflow(path, prefix=None):
    reader = tf.train.load_checkpoint(str(prefix or path))
    types = reader.get_variable_to_dtype_map()
    listed = {entry["name"]: entry for entry in cairn_cli.ls(path)}
    assert sorted(listed) == sorted(types)
    for key, dtype in types.items():
        value = reader.get_tensor(key)
        assert (listed[key]["dtype"], listed[key]["shape"]) == (dtype.name, shown_shape(dtype.name, np.shape(value)))
        if dtype != tf.string:
            assert cairn_cli.cat(path, key) == as_stored(value)
        elif np.shape(value) == ():
            assert cairn_cli.cat(path, key) == value
    assert cairn_cli.verify(path)["findings"] == []
    return listed


@pytest.mark.covers("tensorflow.train.Checkpoint")
def test_keras_model_with_adam(scratch):
    model, prefix = keras_checkpoint(scratch)
    check_against_tensorflow(scratch, prefix)
    # The graph leads where names do not.
    kernel = as_stored(model.get_layer("layer1").kernel.numpy())
    assert cairn_cli.cat(scratch, "model/_functional/_operations/1/_kernel") == kernel
    tree = cairn_cli.run("tree", scratch).stdout.decode()
    assert "float32 (4, 3)" in tree and "layer1" in tree and "save_counter  int64 ()" in tree
    assert "adam/net_layer1_kernel_momentum" in tree


def test_modules_slots_and_tables(scratch):
    model = Model()
    optimizer = tf.compat.v1.train.AdamOptimizer(0.1)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model.layer1.kernel)
    optimizer.apply_gradients([(tape.gradient(loss, model.layer1.kernel), model.layer1.kernel)])
    table = tf.lookup.experimental.MutableHashTable(tf.string, tf.int64, -1)
    table.insert(tf.constant(["x", "yy", ""]), tf.constant([1, 2, 3], tf.int64))
    prefix = tf.train.Checkpoint(model=model, optimizer=optimizer, table=table, step=tf.Variable(7), text=tf.Variable("héllo")).save(str(scratch / "c"))
    check_against_tensorflow(scratch, prefix)
    lines = cairn_cli.run("tree", prefix).stdout.decode()
    for wanted in ["kernel  float32 (3, 4)", "shared  → model/layer1", "m of model/layer1/kernel  float32 (3, 4)", "a/b.c", "table-keys  strings (3,)", "step  int32 ()"]:
        assert wanted in lines, lines
    assert cairn_cli.cat(prefix, "text") == "héllo".encode()


def test_partitioned_variables_of_tensorflow_1(scratch):
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        w = v1.get_variable("w", [5])
        emb = v1.get_variable("emb", [41, 3], partitioner=v1.fixed_size_partitioner(4))
        opt = v1.train.AdamOptimizer().minimize(tf.reduce_sum(w) + tf.reduce_sum(tf.convert_to_tensor(emb)))
        with v1.Session() as session:
            session.run(v1.global_variables_initializer())
            session.run(opt)
            v1.train.Saver().save(session, str(scratch / "model.ckpt"), global_step=5)
            value = session.run(tf.convert_to_tensor(emb))
    listed = check_against_tensorflow(scratch, scratch / "model.ckpt-5")
    assert cairn_cli.cat(scratch, "emb") == as_stored(value)
    assert listed["w"]["path"] == ["w", ".ATTRIBUTES", "VARIABLE_VALUE"] and listed["w/Adam"]["path"] == ["w", "Adam"]
    assert json.loads(cairn_cli.run("info", "--json", scratch).stdout)["step"] == 5


def test_saved_models_and_managers(scratch):
    module = tf.Module()
    module.v = tf.Variable([1.0, 2.0, 3.0])
    tf.saved_model.save(module, str(scratch / "saved"))
    check_against_tensorflow(scratch / "saved", scratch / "saved" / "variables" / "variables")
    manager = tf.train.CheckpointManager(tf.train.Checkpoint(v=module.v), str(scratch / "managed"), max_to_keep=2)
    for i in range(4):
        module.v.assign([float(i)] * 3)
        manager.save()
    assert cairn_cli.cat(scratch / "managed", "v") == as_stored(np.full(3, 3, np.float32))
    assert cairn_cli.cat(scratch / "managed", "v", step=3) == as_stored(np.full(3, 2, np.float32))
    assert cairn_cli.call("ls", scratch / "managed", "--step", 1).returncode == cairn_cli.IO


@pytest.mark.parametrize("target", ["x.safetensors", "x.npz", "x.msgpack", "orbax"])
def test_converts_to_every_format(scratch, target):
    _, prefix = keras_checkpoint(scratch)
    to = ["--to", "orbax"] if target == "orbax" else []
    cairn_cli.run("convert", prefix, scratch / target, *to)
    assert cairn_cli.run("diff", prefix, scratch / target).returncode == 0
    names = {entry["name"] for entry in cairn_cli.ls(scratch / target)}
    assert "optimizer._trainable_variables.0" in names and "save_counter" in names and not any("OBJECT_GRAPH" in name for name in names)
    if target == "x.npz":
        reader = tf.train.load_checkpoint(prefix)
        loaded = np.load(io.BytesIO((scratch / target).read_bytes()))
        key = "optimizer/_trainable_variables/0/.ATTRIBUTES/VARIABLE_VALUE"
        assert as_stored(loaded["optimizer._trainable_variables.0"]) == as_stored(reader.get_tensor(key))


def refused(path):
    """Whether Cairn hands out nothing of a checkpoint that may be damaged without saying so."""
    return cairn_cli.call("verify", path).returncode != cairn_cli.GOOD


@pytest.mark.covers("tensorflow.raw_ops.RestoreV2")
def test_a_flipped_bit_is_always_noticed(scratch):
    rng = np.random.default_rng(FRESH)
    keras_checkpoint(scratch)
    for file in [next(scratch.glob("*.index")), next(scratch.glob("*.data-*"))]:
        whole = file.read_bytes()
        for bit in rng.integers(0, 8 * len(whole), 100):
            damaged = bytearray(whole)
            damaged[bit // 8] ^= 1 << (bit % 8)
            file.write_bytes(damaged)
            assert refused(scratch / "ckpt-1"), (file.name, int(bit))
        file.write_bytes(whole)
    assert not refused(scratch / "ckpt-1")


def test_a_file_that_is_cut_is_always_noticed(scratch):
    rng = np.random.default_rng(FRESH)
    keras_checkpoint(scratch, fit=False)
    for file in [next(scratch.glob("*.index")), next(scratch.glob("*.data-*"))]:
        whole = file.read_bytes()
        for length in rng.integers(0, len(whole), 40):
            file.write_bytes(whole[:length])
            assert refused(scratch / "ckpt-1"), (file.name, int(length))
        file.unlink()
        assert refused(scratch / "ckpt-1")
        file.write_bytes(whole)


def test_hostile_indexes_are_refused(scratch):
    """Well-formed tables whose entries say what cannot be; TensorFlow refuses most of them, too."""
    save(scratch / "ckpt", [("a", "", tf.constant([1.0, 2.0])), ("b", "", tf.constant(["x", "yy"]))])
    entries = dict(bundle_bytes.read_table(scratch / "ckpt.index"))

    def change(key, number, value):
        wire = 5 if number == 6 else 2 if isinstance(value, bytes) else 0
        rest = [field for field in bundle_bytes.fields(entries[key]) if field[0] != number]
        return {**entries, key: bundle_bytes.message(sorted([*rest, (number, wire, value)], key=lambda field: field[0]))}

    huge = bundle_bytes.message([(2, 2, bundle_bytes.message([(1, 0, 2**62)])), (2, 2, bundle_bytes.message([(1, 0, 2**62)]))])
    for changed in [change(b"a", 1, 99), change(b"a", 1, 20), change(b"a", 3, 1), change(b"a", 4, 2**63 - 1), change(b"a", 5, 9), change(b"a", 4, 2**64 - 8), change(b"a", 2, huge),
                    change(b"a", 6, 1), change(b"b", 5, 2**40), change(b"b", 6, 7), change(b"", 1, 0), change(b"", 1, 2**31), change(b"", 2, 3), {k: v for k, v in entries.items() if k}]:
        bundle_bytes.write_table(scratch / "ckpt.index", sorted(changed.items()))
        done = cairn_cli.call("verify", scratch / "ckpt")
        assert done.returncode in (cairn_cli.NO, cairn_cli.IO), done.stdout
        assert b"ckpt" in done.stderr + done.stdout


def test_names_may_be_any_bytes(scratch):
    names = ["plain", "ünï", "with space", "new\nline", "a/b.c", "quote'\""]
    raw = [name.encode() for name in names] + [b"\xff\x01bytes"]
    save(scratch / "ckpt", [(name, "", tf.constant(float(i))) for i, name in enumerate(raw)])
    assert len(cairn_cli.ls(scratch / "ckpt")) == len(raw)
    for i, name in enumerate(raw[:-1]):
        assert cairn_cli.cat(scratch / "ckpt", name.decode()) == as_stored(np.float32(i))
    assert cairn_cli.run("tree", scratch / "ckpt").stdout


@pytest.mark.parametrize("names", [["a.b", "a..b", "c/d"], [".", "..", "../../x", "/etc/x", "a/../b"], ["w.Sx", "w/x", "w.Sx/y"]])
def test_names_that_differ_only_in_escapes_are_all_converted(scratch, names):
    """Names of TensorFlow 1 are not escaped, and may be taken for others that are."""
    save(scratch / "ckpt", [(name, "", tf.constant([float(i)])) for i, name in enumerate(names)])
    for target in ["x.safetensors", "x.msgpack", "orbax", "tf/x"]:
        cairn_cli.run("convert", scratch / "ckpt", scratch / target, "--to", {"tf/x": "tensorflow"}.get(target, target.split(".")[-1]), *(["--names"] if target == "tf/x" else []))
        compared = json.loads(cairn_cli.run("diff", scratch / "ckpt", scratch / target, "--json").stdout)
        assert compared["equal"] and compared["same"] == len(names), target
    reader = tf.train.load_checkpoint(str(scratch / "tf/x"))
    assert {name: reader.get_tensor(name).tolist() for name in reader.get_variable_to_shape_map()} == {name: [float(i)] for i, name in enumerate(names)}
    assert sorted(entry.name for entry in scratch.iterdir()) == ["ckpt.data-00000-of-00001", "ckpt.index", "orbax", "tf", "x.msgpack", "x.safetensors"]


def test_a_foreign_entry_at_a_data_file_is_named(scratch):
    save(scratch / "ckpt", [("a", "", tf.constant([1.0, 2.0])), ("empty", "", tf.constant([], tf.float32))])
    data = scratch / "ckpt.data-00000-of-00001"
    data.rename(scratch / "values")
    for make, text in [(lambda: None, "no such file"), (lambda: os.mkfifo(data), "is not a regular file"), (lambda: data.mkdir(), "is a directory"),
                       (lambda: data.symlink_to(data.name), "symbolic links"), (lambda: data.symlink_to("/dev/zero"), "is not a regular file")]:
        make()
        report = json.loads(cairn_cli.run("verify", scratch / "ckpt", "--json", status=cairn_cli.NO).stdout)
        assert not report["ok"] and any(text in finding["message"] and data.name in finding["message"] for finding in report["findings"]), report
        for command in (["cat", scratch / "ckpt", "a"], ["stats", scratch / "ckpt"], ["convert", scratch / "ckpt", scratch / "x.npz"], ["diff", scratch / "ckpt", scratch / "ckpt"]):
            done = cairn_cli.call(*command)
            assert done.returncode == cairn_cli.IO and data.name in (done.stdout + done.stderr).decode(), done
        assert not (scratch / "x.npz").exists()
        if data.is_dir():
            data.rmdir()
        else:
            data.unlink(missing_ok=True)
    data.symlink_to("values")
    assert not refused(scratch / "ckpt")
    assert cairn_cli.cat(scratch / "ckpt", "a") == as_stored(np.array([1.0, 2.0], np.float32))


def test_prefixes_may_be_any_names(scratch):
    for i, name in enumerate(["g[0-9]*?", "üñí ✓", "-dash", "a b", "new\nline", "x.index", "x.data-00000-of-00001", "%s%n", "a.."]):
        save(scratch / name, [("a", "", tf.constant([float(i)]))])
        for path in (scratch / name, scratch / f"{name}.index", scratch / f"{name}.data-00000-of-00001"):
            assert cairn_cli.cat(path, "a") == as_stored(np.array([i], np.float32)), path


def test_a_checkpoint_moved_with_its_folder_opens(scratch):
    (scratch / "one").mkdir()
    keras_checkpoint(scratch / "one", fit=False)
    shutil.move(scratch / "one", scratch / "two")
    assert cairn_cli.ls(scratch / "two")


def test_variants_are_checked_though_not_read(scratch):
    iterator = iter(tf.data.Dataset.range(10).shuffle(4).batch(2))
    next(iterator)
    prefix = tf.train.Checkpoint(it=iterator, v=tf.Variable([1.0])).save(str(scratch / "c"))
    assert not refused(prefix)
    entry = {entry["name"]: entry for entry in cairn_cli.ls(prefix)}["it/.ATTRIBUTES/ITERATOR_STATE"]
    assert entry["dtype"] == "variant"
    assert cairn_cli.call("cat", prefix, "it").returncode != cairn_cli.GOOD
    data = scratch / "c-1.data-00000-of-00001"
    whole = data.read_bytes()
    for bit in np.random.default_rng(FRESH).integers(0, 8 * len(whole), 60):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << (bit % 8)
        data.write_bytes(damaged)
        assert refused(prefix), int(bit)


def test_dumps_an_index(scratch):
    save(scratch / "ckpt", [("w", "4 2 0,4:0,1", tf.ones([4, 1])), ("s", "", tf.constant("x"))])
    found = json.loads(cairn_cli.run("dump", scratch / "ckpt.index").stdout)
    assert found["header"] == {"shards": 1, "endianness": "little", "producer": 1, "min_consumer": 0}
    entries = {entry["key"]: entry for entry in found["entries"]}
    assert entries["w"]["slices"] == ["0,4:0,1"] and entries["w"]["shape"] == [4, 2]
    assert entries["s"]["dtype"] == "string" and entries["s"]["size"] == 6
    assert len(entries) == 3, "the slice has an entry of its own"
