"""Checkpoints of several items: what Cairn saves the real handlers restore, and the other way round; construct_restore_args, merge_trees."""

import dataclasses
import json
import os
import random
import subprocess

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from google.protobuf import struct_pb2, text_format
from orbax.checkpoint import transform_utils
from orbax.checkpoint._src.handlers import proto_checkpoint_handler as proto
from orbax.checkpoint._src.metadata import sharding as sharding_metadata

import cairn_cli
import tree_json

SEED = int(os.environ["CAIRN_SEED"])
SHARDED = jax.sharding.NamedSharding(jax.make_mesh((4, 2), ("x", "y")), jax.sharding.PartitionSpec("x"))


def run(jobs):
    done = subprocess.run([cairn_cli.TOOLS / "items_tool"], input=json.dumps(jobs), capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def random_array(rng):
    return np.random.default_rng(rng.getrandbits(32)).integers(0, 100, rng.choice([(), (3,), (8, 2), (1, 1)])).astype(rng.choice(["float32", "int8", "uint16", "bool"]))


def random_tree(rng, text):
    tree = {"a": random_array(rng), "n": rng.choice([3, 0.5, True]), "list": [random_array(rng), {"deep": random_array(rng)}], "none": None}
    if text:
        tree["text"] = "adam é"
    if rng.random() < 0.5:
        tree["sharded"] = jax.device_put(np.arange(16, dtype=np.float32).reshape(8, 2), SHARDED)
    return tree


def numpy_state(rng):
    generator = np.random.RandomState(rng.getrandbits(31))
    generator.normal()
    return generator.get_state(legacy=rng.random() < 0.5)


def random_key(rng):
    return rng.choice([jax.random.key, jax.random.PRNGKey])(rng.getrandbits(31))


def message(rng):
    made = struct_pb2.Struct()
    made.update({"layers": rng.randint(1, 99), "name": "é\n"})
    return made


def random_items(rng):
    makers = {
        "pytree": lambda: random_tree(rng, True), "standard": lambda: random_tree(rng, False),
        "array": lambda: rng.choice([random_array(rng), 7, 0.25, jax.device_put(np.arange(8.0), SHARDED)]),
        "json": lambda: {"layers": rng.randint(1, 9), "é": [None, 0.1]}, "proto": lambda: message(rng),
        "jax_key": lambda: random_key(rng), "numpy_key": lambda: numpy_state(rng),
    }
    kinds = rng.sample(list(makers), rng.randint(1, len(makers)))
    return {f"{kind}{number}": (kind, makers[kind]()) for kind in kinds for number in range(rng.randint(1, 2))}


def is_typed(key):
    return bool(jax.dtypes.issubdtype(key.dtype, jax.dtypes.prng_key))


def job_item(name, kind, value):
    item = {"name": name, "kind": kind}
    if kind == "json":
        return item | {"text": json.dumps(value, ensure_ascii=False)}
    if kind == "proto":
        return item | {"text": text_format.MessageToString(value)}
    if kind == "jax_key":
        return item | {"typed": is_typed(value), "tree": tree_json.to_json(np.asarray(jax.random.key_data(value)))}
    return item | {"tree": tree_json.to_json(value)}


SAVE = {
    "pytree": ocp.args.PyTreeSave, "standard": ocp.args.StandardSave, "array": ocp.args.ArraySave, "json": ocp.args.JsonSave,
    "proto": proto.ProtoSaveArgs, "jax_key": ocp.args.JaxRandomKeySave, "numpy_key": ocp.args.NumpyRandomKeySave,
}
RESTORE = {
    "pytree": ocp.args.PyTreeRestore, "standard": ocp.args.StandardRestore, "array": ocp.args.ArrayRestore, "json": ocp.args.JsonRestore,
    "proto": lambda: proto.ProtoRestoreArgs(struct_pb2.Struct), "jax_key": ocp.args.JaxRandomKeyRestore, "numpy_key": ocp.args.NumpyRandomKeyRestore,
}


def files_below(path):
    """The files whose names and texts do not depend on the time or on random numbers."""
    return {str(file.relative_to(path)): file.read_text() for file in sorted(path.rglob("*"))
            if file.is_file() and file.name in ("metadata", "proto.pbtxt", "_METADATA", ".zarray", "_strings.json")}


@pytest.mark.covers(
    "items.CompositeCheckpointHandler", "items.StandardCheckpointHandler",
    "items.ArrayCheckpointHandler", "items.JsonCheckpointHandler", "items.ProtoCheckpointHandler",
    "items.JaxRandomKeyCheckpointHandler", "items.NumpyRandomKeyCheckpointHandler",
)
@pytest.mark.parametrize("part", range(4))
def test_random_items_both_ways(part, scratch):
    """15 checkpoints a part: Cairn's restored by Orbax, Orbax's by Cairn; the same metadata; the same recorded handlers."""
    checkpointer = ocp.Checkpointer(ocp.CompositeCheckpointHandler())
    cases = [random_items(random.Random(SEED * 1000 + part * 15 + number)) for number in range(15)]
    run([{"op": "save", "path": str(scratch / f"ours{n}"), "metadata": '{"n": 1}', "async": n % 2 == 0,
          "items": [job_item(name, *item) for name, item in items.items()]} for n, items in enumerate(cases)])
    for n, items in enumerate(cases):
        checkpointer.save(scratch / f"theirs{n}", ocp.args.Composite(**{name: SAVE[kind](value) for name, (kind, value) in items.items()}), custom_metadata={"n": 1})
    answers = run([{"op": "restore", "path": str(scratch / f"{whose}{n}"), "names": []} for n in range(len(cases)) for whose in ("ours", "theirs")])
    for n, items in enumerate(cases):
        ours, theirs = scratch / f"ours{n}", scratch / f"theirs{n}"
        restored = [checkpointer.restore(path, ocp.args.Composite(**{name: RESTORE[kind]() for name, (kind, _) in items.items()})) for path in (ours, theirs)]
        for name, (kind, value) in items.items():
            got, expected = (one[name] for one in restored)
            if kind == "jax_key":
                assert is_typed(got) == is_typed(expected) == is_typed(value)
                got, expected = (np.asarray(jax.random.key_data(one)) for one in (got, expected))
            if kind == "proto":
                assert got == expected == value
                continue
            assert tree_json.normal(tree_json.to_json(got)) == tree_json.normal(tree_json.to_json(expected)), (part, n, name)
        metadata = [json.loads((path / "_CHECKPOINT_METADATA").read_text()) for path in (ours, theirs)]
        assert [{**one, "init_timestamp_nsecs": 0, "commit_timestamp_nsecs": 0} for one in metadata][0] == [{**one, "init_timestamp_nsecs": 0, "commit_timestamp_nsecs": 0} for one in metadata][1]
        # A key of JAX is saved from host memory; the rest of its files are equal.
        keys = {f"{name}/jax_random_key/_METADATA" for name, (kind, _) in items.items() if kind == "jax_key"}
        assert {name: text for name, text in files_below(ours).items() if name not in keys} == {name: text for name, text in files_below(theirs).items() if name not in keys}, (part, n)
        assert answers[2 * n] != [] and normal_items(answers[2 * n]) == normal_items(answers[2 * n + 1]), (part, n)
        assert {one["name"] for one in answers[2 * n]} == set(items)


def normal_items(answer):
    assert isinstance(answer, list), answer
    out = []
    for item in answer:
        item = dict(item)
        if "tree" in item:
            tree = item["tree"]
            if item["kind"] == "jax_key" and "sharded" in tree:  # Orbax's own are arrays of JAX
                tree = {"array": {name: tree["sharded"][name] for name in ("dtype", "shape", "hex")}}
            item["tree"] = tree_json.normal(tree)
        if item["kind"] == "json":
            item["text"] = json.loads(item["text"])
        out.append(item)
    return out


def test_a_manager_restores_without_arguments(scratch):
    """Orbax chooses the handlers by the names that Cairn has recorded."""
    items = {"standard": ("standard", {"w": np.arange(3), "step": 3}), "array": ("array", np.arange(4)), "config": ("json", {"a": 1})}
    run([{"op": "save", "path": str(scratch / "run/1"), "metadata": "", "async": False, "items": [job_item(name, *item) for name, item in items.items()]}])
    with ocp.CheckpointManager(scratch / "run") as manager:
        restored = manager.restore(1)
    assert tree_json.to_json(dict(sorted(restored["standard"].items()))) == tree_json.to_json(dict(sorted(items["standard"][1].items())))
    np.testing.assert_array_equal(restored["array"], np.arange(4))
    assert restored["config"] == {"a": 1}


# Orbax's message -> words of Cairn's
REFUSALS = {"does not support single arrays or scalars. Use ArrayCheckpointHandler": "is one array or number; save it as an ArrayItem",
            "Unsupported type: <class 'str'> for key: ('a',)": "the leaf ['a'] is neither an array nor a number",
            "Unsupported option `aggregate` for key": "the leaf ['a'] is to be aggregated",
            "Must provide item to save": "has no tree to save",
            "Unsupported type: <class 'dict'>.": "is neither an array nor a number", "Unsupported type: <class 'str'>.": "is neither an array nor a number",
            "Unsupported type: <class 'list'>.": "is neither a tuple nor a dict"}


@pytest.mark.covers("errors.items")
def test_the_same_refusals(scratch):
    """What the real handlers refuse as the value of an item."""
    bad = [("standard", 3), ("standard", np.float32), ("standard", {"a": "text"}), ("standard", None), ("array", {"a": 1}), ("array", "text"), ("numpy_key", [1])]
    jobs, errors = [], []
    for n, (kind, value) in enumerate(bad):
        checkpointer = ocp.Checkpointer(ocp.CompositeCheckpointHandler())  # one knows only the first kind of an item
        if value is np.float32:
            value = jax.numpy.arange(3)
        with pytest.raises((ValueError, TypeError)) as error:
            checkpointer.save(scratch / f"theirs{n}", ocp.args.Composite(x=SAVE[kind](value)))
        errors.append(str(error.value))
        jobs.append({"op": "save", "path": str(scratch / f"ours{n}"), "metadata": "", "async": False, "items": [job_item("x", kind, value)]})
    for (kind, value), error, answer in zip(bad, errors, run(jobs), strict=True):
        known = [gist for real, gist in REFUSALS.items() if real in error]
        assert known, (kind, value, "an error of the real package that this test does not know", error)
        assert answer["code"] == "invalid_argument" and known[0] in answer["error"], (error, answer)


@pytest.mark.covers("items.args.StandardSave")
def test_a_standard_item_takes_arguments_of_leaves_and_metadata(scratch):
    tree = {"a": np.arange(6.0), "b": 3}
    save_args = {"a": ocp.SaveArgs(dtype=np.dtype("float32")), "b": None}
    item = job_item("x", "standard", tree) | {"save_args": tree_json.to_json(save_args), "custom": '{"k": 1}'}
    run([{"op": "save", "path": str(scratch / "ours"), "metadata": "", "async": False, "items": [item]}])
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "theirs", ocp.args.Composite(x=ocp.args.StandardSave(tree, save_args, custom_metadata={"k": 1})))
    assert files_below(scratch / "ours") == files_below(scratch / "theirs")
    # What the real one refuses, and others only warn of.
    bad = {"a": ocp.SaveArgs(aggregate=True), "b": None}
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer, pytest.raises(ValueError, match="aggregate") as error:
        checkpointer.save(scratch / "bad", ocp.args.Composite(x=ocp.args.StandardSave(tree, bad)))
    [answer] = run([{"op": "save", "path": str(scratch / "ours2"), "metadata": "", "async": False, "items": [item | {"save_args": tree_json.to_json(bad)}]}])
    [words] = [ours for theirs, ours in REFUSALS.items() if theirs in str(error.value)]
    assert answer["code"] == "invalid_argument" and words in answer["error"]


def standard_target(rng, leaf):
    """What a target may have at a leaf of this value, and what it may not have."""
    if leaf is None:
        return None
    if isinstance(leaf, dict):
        return {key: standard_target(rng, child) for key, child in leaf.items()}
    if isinstance(leaf, list):
        return [standard_target(rng, child) for child in leaf]
    if rng.random() < 0.02:
        return rng.choice(["text", ..., 1j])
    if isinstance(leaf, (bool, int, float)):
        return rng.choice([0, 0.0, False, leaf])
    dtype = rng.choice([leaf.dtype, np.dtype("float32"), np.dtype("int32")])
    shape = leaf.shape if rng.random() < 0.8 or leaf.ndim != 2 else rng.choice([(4, 2), (8, 3), (16, 1)])
    sharding = rng.choice([None, SHARDED]) if len(shape) == 2 and shape[0] % 4 == 0 else None
    if rng.random() < 0.3:
        return np.zeros(shape, dtype)
    if sharding is not None and rng.random() < 0.3:
        return jax.device_put(np.zeros(shape, dtype), sharding)
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding)


@pytest.mark.covers("items.args.StandardRestore")
def test_standard_restores(scratch):
    """Random targets, strict and not: the same tree, or both refuse."""
    saver = ocp.Checkpointer(ocp.CompositeCheckpointHandler())
    jobs, expected = [], []
    for n in range(120):
        rng = random.Random(SEED * 613 + n)
        tree = random_tree(rng, False)
        path = scratch / str(n)
        saver.save(path, ocp.args.Composite(x=ocp.args.StandardSave(tree)))
        target = None if rng.random() < 0.1 else standard_target(rng, tree)
        if target and rng.random() < 0.1:
            target["more"] = jax.ShapeDtypeStruct((8, 2), np.float32)
        if target and rng.random() < 0.05:
            del target["a"]
        strict = rng.random() < 0.5
        try:
            restored = saver.restore(path, ocp.args.Composite(x=ocp.args.StandardRestore(target, strict=strict)))["x"]
            expected.append(tree_json.normal(tree_json.to_json(restored)))
        except (ValueError, TypeError) as error:
            expected.append(error)
        jobs.append({"op": "standard", "path": str(path), "name": "x", "strict": strict, "target": None if target is None else tree_json.to_json(target)})
    for job, answer, wanted in zip(jobs, run(jobs), expected, strict=True):
        if isinstance(wanted, Exception):
            assert answer.get("code") == "invalid_argument", (job, answer, wanted)
        else:
            assert "code" not in answer and tree_json.normal(answer) == wanted, (job, answer, wanted)
    refused = sum(isinstance(wanted, Exception) for wanted in expected)
    assert 10 < refused < 100


def move_devices(path, rng, changes):
    """The stored shardings of some arrays name devices that are not here."""
    file = path / "x" / "_sharding"
    shardings = json.loads(file.read_text()) if file.exists() else {}
    for name, text in shardings.items():
        sharding = json.loads(text)
        change = rng.choice(changes)
        if change == "mesh":  # as old versions wrote it, of another machine
            sharding["shape"] = [16, 2]
            del sharding["device_mesh"]
        if change == "ids":
            sharding["device_mesh"] = json.loads(json.dumps(sharding["device_mesh"]).replace('"id": 3', '"id": 300'))
        shardings[name] = json.dumps(sharding)
    file.write_text(json.dumps(shardings))


@pytest.mark.covers(
    "items.args.StandardRestore",
    note=(
        "`fallback_sharding` needs `devices`: C++ knows no devices by itself. `support_layout` is"
        " in `cairn.orbax` alone."
    ),
)
def test_a_sharding_for_arrays_of_other_devices(scratch):
    """fallback_sharding takes the place of stored shardings that need devices which are not here; without it both refuse."""
    saver = ocp.Checkpointer(ocp.CompositeCheckpointHandler())
    fallback = jax.sharding.NamedSharding(SHARDED.mesh, jax.sharding.PartitionSpec(None, "y"))
    devices = [str(device) for device in jax.devices()]
    jobs, expected = [], []
    for n in range(20):
        rng = random.Random(SEED * 617 + n)
        tree = {name: jax.device_put(np.arange(16, dtype=np.float32).reshape(8, 2) + i, SHARDED) for i, name in enumerate("ab")} | {"host": np.arange(3)}
        path = scratch / str(n)
        saver.save(path, ocp.args.Composite(x=ocp.args.StandardSave(tree)))
        move_devices(path, rng, ["mesh", "ids"] if n == 0 else ["no", "mesh", "ids"])
        target = None
        if n > 0 and rng.random() < 0.5:
            target = {name: jax.ShapeDtypeStruct((8, 2), np.int32, sharding=rng.choice([None, None, SHARDED])) for name in "ab"} | {"host": np.zeros(3)}
        given = fallback if n > 0 and rng.random() < 0.7 else None
        try:
            restored = saver.restore(path, ocp.args.Composite(x=ocp.args.StandardRestore(target, fallback_sharding=given)))["x"]
            expected.append(tree_json.normal(tree_json.to_json(restored)))
        except ValueError as error:
            assert "Topology mismatch" in str(error), error
            expected.append(error)
        job = {"op": "standard", "path": str(path), "name": "x", "strict": True, "target": None if target is None else tree_json.to_json(target), "devices": devices}
        if given is not None:
            job["fallback"] = sharding_metadata.from_jax_sharding(given).to_serialized_string()
        jobs.append(job)
    for job, answer, wanted in zip(jobs, run(jobs), expected, strict=True):
        if isinstance(wanted, Exception):
            assert answer.get("code") == "invalid_argument" and "fallback_sharding" in answer["error"], (job, answer, wanted)
        else:
            assert "code" not in answer and tree_json.normal(answer) == wanted, (job, answer, wanted)
    assert 0 < sum(isinstance(wanted, Exception) for wanted in expected) < 20


def targets(rng):
    tree = random_tree(rng, True)
    tree["abstract"] = jax.ShapeDtypeStruct((8, 2), np.float32, sharding=SHARDED)
    tree["host"] = jax.ShapeDtypeStruct((8, 2), np.int8)
    return tree


@pytest.mark.covers("items.checkpoint_utils.construct_restore_args")
def test_construct_restore_args(scratch):
    cases = [targets(random.Random(SEED * 77 + n)) for n in range(100)]
    answers = run([{"op": "construct", "target": tree_json.to_json(tree)} for tree in cases])
    for tree, answer in zip(cases, answers):
        expected = tree_json.to_json(ocp.checkpoint_utils.construct_restore_args(tree))
        assert tree_json.normal(answer) == tree_json.normal(expected), tree


def random_nested(rng, depth=0):
    if depth == 3 or rng.random() < 0.3:
        return rng.randint(0, 99)
    if rng.random() < 0.2:
        return [random_nested(rng, depth + 1) for _ in range(rng.randint(1, 3))]
    return {key: random_nested(rng, depth + 1) for key in rng.sample(["a", "b", "0", "1", "x/y"], rng.randint(1, 3))}


@pytest.mark.covers("items.transform_utils.merge_trees", "items.transform_utils.intersect_trees")
def test_merge_and_intersect():
    """Random trees, with and without a target; the kind of an error, too."""
    jobs, expected = [], []
    for number in range(1000):
        rng = random.Random(SEED * 991 + number)
        trees = [random_nested(rng) for _ in range(rng.randint(1, 3))]
        target = random_nested(rng) if rng.random() < 0.3 else None
        op = rng.choice(["merge", "intersect"])
        try:
            result = getattr(transform_utils, f"{op}_trees")(*trees, target=target)
            expected.append(tree_json.normal(tree_json.to_json(result)))
        except KeyError:
            expected.append("not_found")
        except (AssertionError, TypeError, ValueError):
            expected.append("invalid_argument")
        jobs.append({"op": op, "trees": [tree_json.to_json(tree) for tree in trees], "target": None if target is None else tree_json.to_json(target)})
    for job, answer, wanted in zip(jobs, run(jobs), expected):
        assert (answer["code"] if "code" in answer else tree_json.normal(answer)) == wanted, job
    assert {"not_found", "invalid_argument"} <= set(map(str, expected))


class Position(ocp.CheckpointHandler):
    """A handler of the user's own."""

    def save(self, directory, args):
        (directory / "position.txt").write_text(args.text)

    def restore(self, directory, args=None):
        return (directory / "position.txt").read_text()


@ocp.args.register_with_handler(Position, for_save=True, for_restore=True)
@dataclasses.dataclass
class PositionArgs(ocp.args.CheckpointArgs):
    text: str = ""


@pytest.mark.covers(
    "items.CompositeCheckpointHandler",
    note=(
        "An item of an unknown handler is `unimplemented` unless `FilesReaders` has a reader for "
        "it."
    ),
)
def test_readers_restore_the_items_of_other_handlers(scratch):
    """Orbax restores them with the handler of the recorded name, Cairn with the reader for it. Without one, both restore nothing."""
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "ckpt", ocp.args.Composite(data=PositionArgs("at 7 é"), config=ocp.args.JsonSave({"a": 1})))
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
        restored = checkpointer.restore(scratch / "ckpt", ocp.args.Composite(data=PositionArgs()))
    job = {"op": "restore", "path": str(scratch / "ckpt"), "names": []}
    [got] = run([job | {"readers": {Position().typestr(): "position.txt"}}])
    assert got == [{"name": "config", "kind": "json", "text": '{"a": 1}'},
                   {"name": "data", "kind": "custom", "handler": Position().typestr(), "text": restored["data"]}]
    file = scratch / "ckpt" / "_CHECKPOINT_METADATA"
    file.write_text(file.read_text().replace(Position.__module__ + ".", "unknown."))
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer, pytest.raises(ValueError, match="could not be restored"):
        checkpointer.restore(scratch / "ckpt")
    [refused] = run([job | {"readers": {Position().typestr(): "position.txt"}}])
    assert refused["code"] == "unimplemented"
