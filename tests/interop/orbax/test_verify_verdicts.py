"""`cairn verify` is good exactly when the real package restores the same values: every file of a checkpoint of each layout is removed,
emptied, and replaced by another file of it and by the file of the same name of another checkpoint, and every folder is removed.

Where the two do not agree, the case is one of STRICTER or LAXER, each with its reason. A value that nothing protects may be replaced by
another one of its size without anybody noticing: then `verify` has named its array as `unprotected`.
"""

import json
import os
import shutil

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
import safetensors
import safetensors.numpy
from flax import serialization
from google.protobuf import json_format, struct_pb2
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from orbax.checkpoint._src.handlers import proto_checkpoint_handler as proto

import cairn_cli

GOLDEN = cairn_cli.ROOT / "tests" / "golden" / "orbax" / "orbax-0.12.8"
LEAST_CASES = 1000


# ---- values, by the names that Cairn gives them ----
def is_leaf(node):
    return node is None or (isinstance(node, (dict, list, tuple)) and not node)


def value_of(leaf):
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return "key", str(jax.random.key_impl(leaf)), np.asarray(jax.random.key_data(leaf)).tobytes()
    if hasattr(leaf, "dtype"):
        array = np.asarray(leaf)
        return type(leaf).__name__, array.dtype.name, array.shape, array.tobytes()
    return type(leaf).__name__, repr(leaf)


def values_of(tree, item=""):
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_leaf)
    part = lambda key: str(getattr(key, "key", getattr(key, "idx", getattr(key, "name", key))))
    return {item + ".".join(map(part, path)): value_of(leaf) for path, leaf in leaves}


def values_of_items(items):
    return {name: value for item, tree in dict(items).items() for name, value in values_of(tree, f"{item}/").items()}


# ---- the layouts: how the real package saves checkpoint 1 or 2, and restores ----
def make_tree(number, strings=True):
    """Of the two trees no array has the same shape, so that no chunk of one fits the other."""
    rng = np.random.default_rng(number)
    mesh = Mesh(np.array(jax.devices()[:2]), ("x",))
    put = lambda value, *spec: jax.device_put(value, NamedSharding(mesh, P(*spec)))
    return {
        "big": rng.standard_normal((16 + number, 33)).astype(np.float32), "sharded": put(rng.integers(0, 100, (2 + 2 * number, 3)), "x"),
        "replicated": put(rng.standard_normal(4 + number)), "key": jax.random.key(number, impl=["threefry2x32", "rbg"][number - 1]),
        "step": [7, True][number - 1],
        "list": [np.arange(3 + number), {"text": "a text" if strings else np.arange(2 * number)}], "none": None,
    }


class Direct:
    def __init__(self, **options):
        self.options = options

    def save(self, path, number):
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**self.options)) as checkpointer:
            checkpointer.save(path, args=ocp.args.PyTreeSave(make_tree(number)))

    def restore(self, path):
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**self.options)) as checkpointer:
            return values_of(checkpointer.restore(path))


class StepRoot:
    """A manager's step with one item of each kind."""

    def items(self, number):
        return {
            "state": ocp.args.PyTreeSave(make_tree(number)), "params": ocp.args.StandardSave(make_tree(number, strings=False)),
            "config": ocp.args.JsonSave({"rate": number}), "array": ocp.args.ArraySave(np.arange(3.0 + number)),
            "jax_key": ocp.args.JaxRandomKeySave(jax.random.split(jax.random.key(number), number)),
            "numpy_key": ocp.args.NumpyRandomKeySave(np.random.RandomState(number).get_state()),
        }

    def save(self, path, number):
        with ocp.CheckpointManager(path) as manager:
            manager.save(1, args=ocp.args.Composite(state=ocp.args.PyTreeSave({"old": np.ones(2)})))
            manager.save(2, args=ocp.args.Composite(**self.items(number)))
            manager.wait_until_finished()

    def restore(self, path):
        with ocp.CheckpointManager(path) as manager:
            return values_of_items(manager.restore(manager.latest_step()).items())


class StepRootByName(StepRoot):
    """For a caller who knows the items: a restore needs no handlers to be recorded."""

    def items(self, number):
        return {"array": ocp.args.ArraySave(np.arange(3.0 + number)), "config": ocp.args.JsonSave({"rate": number}),
                "message": proto.ProtoSaveArgs(json_format.ParseDict({"layers": number}, struct_pb2.Struct()))}

    def restore(self, path):
        args = ocp.args.Composite(array=ocp.args.ArrayRestore(), config=ocp.args.JsonRestore(), message=proto.ProtoRestoreArgs(struct_pb2.Struct))
        with ocp.CheckpointManager(path) as manager:
            return values_of_items(manager.restore(manager.latest_step(), args=args).items())


class Version1:
    def save(self, path, number):
        ocp.v1.save(path, make_tree(number))

    def restore(self, path):
        return values_of(ocp.v1.load(path))


class Checkpointables:
    def save(self, path, number):
        ocp.v1.save_checkpointables(path, {"state": make_tree(number), "ema": {"w": np.ones(2 + number)}})

    def restore(self, path):
        return values_of_items(ocp.v1.load_checkpointables(path).items())


class Golden:
    """Checkpoints of two processes, and older ones."""

    def __init__(self, name, other, **options):
        self.names = name, other
        self.options = options

    def save(self, path, number):
        shutil.copytree(GOLDEN / self.names[number - 1], path)

    def restore(self, path):
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**self.options)) as checkpointer:
            return values_of(checkpointer.restore(path))


class TwoProcesses(Golden):
    """Restored as host arrays: this process does not have their devices."""

    def restore(self, path):
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**self.options)) as checkpointer:
            stored = checkpointer.metadata(path).item_metadata.tree
            to_host = lambda leaf: ocp.RestoreArgs(restore_type=np.ndarray if type(leaf).__name__ == "ArrayMetadata" else None)
            return values_of(checkpointer.restore(path, args=ocp.args.PyTreeRestore(restore_args=jax.tree.map(to_host, stored))))


def flat_arrays(number):
    rng = np.random.default_rng(number)
    return {"a": rng.standard_normal((3, 4 + number)), "b": np.arange(9 + number), "c": np.float32(number) * np.ones(2 + number)}


class Safetensors:
    """A set of three files and an index, as model folders have it."""

    def save(self, path, number):
        path.mkdir()
        arrays = flat_arrays(number)
        files = {name: f"model-{i + 1:05}-of-00003.safetensors" for i, name in enumerate(arrays)}
        for name, file in files.items():
            safetensors.numpy.save_file({name: arrays[name]}, path / file)
        index = {"metadata": {"total_size": sum(array.nbytes for array in arrays.values())}, "weight_map": files}
        (path / "model.safetensors.index.json").write_text(json.dumps(index))

    def restore(self, path):
        files = json.loads((path / "model.safetensors.index.json").read_text())["weight_map"]
        values = {}
        for name, file in files.items():
            with safetensors.safe_open(path / file, "np") as shard:
                values[name] = value_of(shard.get_tensor(name))
        return values


class Tensorflow:
    """A checkpoint and the state file that names it. Where that is gone, the only checkpoint of a folder is meant."""

    def save(self, path, number):
        import tensorflow as tf

        variables = {name: tf.Variable(value) for name, value in flat_arrays(number).items()}
        checkpoint = tf.train.Checkpoint(**variables, text=tf.Variable(f"text {number}"))
        tf.train.CheckpointManager(checkpoint, str(path), 1).save(5)

    def restore(self, path):
        import tensorflow as tf

        reader = tf.train.load_checkpoint(tf.train.latest_checkpoint(str(path)) or str(path / "ckpt-5"))
        return {name: value_of(np.asarray(reader.get_tensor(name))) for name in reader.get_variable_to_shape_map()}


class OneFile:
    """The file of another checkpoint is that other checkpoint, and good."""

    def __init__(self, name, save, restore):
        self.name, self.write, self.read = name, save, restore

    def save(self, path, number):
        path.mkdir()
        self.write(path / self.name, flat_arrays(number))
        (path / "beside").write_text("not a checkpoint")  # to be swapped with

    def target(self, path):
        return path / self.name

    def restore(self, path):
        values = dict(self.read(path / self.name))
        return {name: value_of(np.asarray(value)) for name, value in values.items()}


LAYOUTS = {
    "ocdbt_zarr2": Direct(), "ocdbt_zarr3": Direct(use_zarr3=True),
    "files_zarr2": Direct(use_ocdbt=False), "files_zarr3": Direct(use_ocdbt=False, use_zarr3=True),
    "raw_files": Direct(use_ocdbt=False, use_compression=False),
    "step_root": StepRoot(), "step_root_by_name": StepRootByName(),
    "v1": Version1(), "v1_checkpointables": Checkpointables(),
    "aggregate_files": Golden("legacy_files", "legacy_ocdbt", use_ocdbt=False), "aggregate_ocdbt": Golden("legacy_ocdbt", "legacy_files"),
    "aggregate": Golden("legacy_all_inside", "legacy_files"), "old_metadata": Golden("old_metadata", "tiny_ocdbt_zarr2"),
    "two_processes_zarr2": TwoProcesses("two_process_ocdbt_zarr2", "two_process_ocdbt_zarr3"),
    "two_processes_zarr3": TwoProcesses("two_process_ocdbt_zarr3", "two_process_ocdbt_zarr2"),
    "two_processes_files": TwoProcesses("two_process_files_zarr3", "two_process_files_zarr2", use_ocdbt=False),
    "safetensors": Safetensors(), "tensorflow": Tensorflow(),
    "safetensors_file": OneFile("a.safetensors", lambda file, arrays: safetensors.numpy.save_file(arrays, file), safetensors.numpy.load_file),
    "npz": OneFile("a.npz", lambda file, arrays: np.savez(file, **arrays), np.load),
    "npz_deflated": OneFile("a.npz", lambda file, arrays: np.savez_compressed(file, **arrays), np.load),
    "npy": OneFile("a.npy", lambda file, arrays: np.save(file, arrays["a"]), lambda file: {"a": np.load(file)}),
    "msgpack": OneFile("a.msgpack", lambda file, arrays: file.write_bytes(serialization.msgpack_serialize(arrays)),
                       lambda file: serialization.msgpack_restore(file.read_bytes())),
}


# ---- what is done to a checkpoint: (file or folder, its new content; None: it is gone) ----
def files_of(path):
    return sorted(file for file in path.rglob("*") if file.is_file())


def removed(path, other):
    return [(file, None) for file in files_of(path)]


def emptied(path, other):
    return [(file, b"") for file in files_of(path) if file.stat().st_size]


def swapped(path, other):
    """With the next file of another content."""
    files = files_of(path)
    contents = [file.read_bytes() for file in files]
    for i, file in enumerate(files):
        others = [content for content in contents[i + 1 :] + contents[:i] if content != contents[i]]
        if others:
            yield file, others[0]


def from_another(path, other):
    """With the file of the same name of another checkpoint."""
    for file in files_of(path):
        theirs = other / file.relative_to(path)
        if theirs.is_file() and theirs.read_bytes() != file.read_bytes():
            yield file, theirs.read_bytes()


def without_folder(path, other):
    """All but whole steps: without its latest step a root is good, as of the step before, which the report names."""
    return [(folder, None) for folder in sorted(path.rglob("*")) if folder.is_dir() and not folder.name.isdigit()]


CHANGES = {"removed": removed, "emptied": emptied, "swapped": swapped, "from_another": from_another, "without_folder": without_folder}


class Changed:
    """A file or folder as it is for the time of one case."""

    def __init__(self, place, content, away):
        self.place, self.content, self.away = place, content, away

    def __enter__(self):
        self.place.rename(self.away)
        if self.content is not None:
            self.place.write_bytes(self.content)

    def __exit__(self, *_):
        if self.content is not None:
            self.place.unlink()
        self.away.rename(self.place)


# ---- where the verdicts differ, and why ----
STRICTER = [  # verify is not good, but the real package restores the same
    ("_CHECKPOINT_METADATA", {"emptied", "swapped"}, "custom metadata and metrics in it are lost; Orbax takes what it cannot parse for absent"),
    ("array_metadatas", CHANGES.keys(), "which arrays are typed PRNG keys is not known or contradicted; this restore has none that depend on it"),
]
LAXER = [  # verify is good, but the real package restores something else
    ("config/metadata", {"swapped", "from_another"}, "nothing records what the JSON was"),
    ("message/proto.pbtxt", {"emptied", "from_another"}, "nothing records what the message was; an empty one has no text"),
]
LAYOUT_STRICTER = {
    "two_processes": [("_sharding", {"removed"}, "a restore to devices needs it; this one is to the host")],
    "step_root_by_name": [("2/_CHECKPOINT_METADATA", {"removed", "swapped"}, "a restore needs the handlers unless the caller names them all")],
}
LAYOUT_LAXER = {
    "aggregate_files": [("checkpoint", {"removed"}, "bare Zarr arrays are left, of which nobody says that there were more"),
                        ("/0", {"removed"}, "a chunk that is not there reads as the fill value")],
}


def is_excepted(exceptions, per_layout, layout, change, place):
    listed = list(exceptions)
    for name, more in per_layout.items():
        listed += more if layout.startswith(name) else []
    return any(part in place and change in changes for part, changes, _ in listed)


def disagreement(layout, change, place, same, differing, code, report):
    """None if the verdict is right, or excepted; else what is wrong with it."""
    if same == (code == cairn_cli.GOOD):
        return None
    if same:
        excepted = is_excepted(STRICTER, LAYOUT_STRICTER, layout, change, place)
        return None if excepted else f"{place}: restored as before, but verify says {report['findings'] if report else code}"
    if differing and differing <= set(report["unprotected"]):
        return None
    return None if is_excepted(LAXER, LAYOUT_LAXER, layout, change, place) else f"{place}: not restored as before, but verify is good"


# ---- the tests ----
@pytest.fixture(scope="module")
def made(module_scratch):
    """A layout's two checkpoints and the values of the first, made once a worker."""
    known = {}

    def make(layout):
        if layout not in known:
            folder = module_scratch / layout
            folder.mkdir()
            for number, name in enumerate(("one", "other"), start=1):
                LAYOUTS[layout].save(folder / name, number)
            known[layout] = folder / "one", folder / "other", LAYOUTS[layout].restore(folder / "one")
        return known[layout]

    return make


def restored(layout, path):
    """The values; what was raised, if they cannot be restored."""
    try:
        return LAYOUTS[layout].restore(path)
    except Exception as e:
        return e


def verdict(layout, path):
    target = getattr(LAYOUTS[layout], "target", lambda folder: folder)(path)
    done = cairn_cli.call("verify", "--json", target)
    assert done.returncode in (cairn_cli.GOOD, cairn_cli.NO, cairn_cli.IO), done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout else None


def cases_of(layout, change, path, other):
    cases = list(CHANGES[change](path, other))
    if isinstance(LAYOUTS[layout], OneFile):
        cases = [(file, content) for file, content in cases if file.name != "beside" and change != "from_another"]
    return cases


@pytest.mark.parametrize("layout", LAYOUTS)
def test_whole_checkpoints_are_good(layout, made):
    path, _, values = made(layout)
    assert values
    assert verdict(layout, path)[0] == cairn_cli.GOOD


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_verify_is_good_exactly_when_the_real_package_restores_the_same(layout, change, made):
    path, other, values = made(layout)
    wrong = []
    for place, content in cases_of(layout, change, path, other):
        with Changed(place, content, path.parent / "away"):
            got = restored(layout, path)
            code, report = verdict(layout, path)
        same = got == values
        differing = set() if isinstance(got, Exception) else {name for name in values | got if values.get(name) != got.get(name)}
        problem = disagreement(layout, change, str(place.relative_to(path)), same, differing, code, report)
        wrong += [f"{problem} ({got if isinstance(got, Exception) else sorted(differing)})"] if problem else []
    assert not wrong, "\n".join(wrong)


def test_there_are_enough_cases(made):
    count = sum(len(cases_of(layout, change, *made(layout)[:2])) for layout in LAYOUTS for change in CHANGES)
    assert count >= LEAST_CASES
