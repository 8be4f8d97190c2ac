"""Which sharding a restore takes from its arguments, and which error it raises without one, beside the real Orbax's. Also metadata trees as arguments."""

import warnings

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding
from orbax.checkpoint._src.metadata import sharding as sharding_metadata
from orbax.checkpoint._src.metadata import tree as tree_metadata

import tree_json
from test_pytree_handler import difference, outcome, run

DEVICES = np.array(jax.devices())
TWO, THREE, FOUR = Mesh(DEVICES[:2], "a"), Mesh(DEVICES[:3], "t"), Mesh(DEVICES[:4].reshape(2, 2), ("x", "y"))
COLUMNS, THIRDS = NamedSharding(TWO, P(None, "a")), NamedSharding(THREE, P("t"))
TREE = {"devices": jax.device_put(np.arange(32.0, dtype=np.float32).reshape(8, 4), NamedSharding(Mesh(DEVICES, "s"), P("s"))),
        "host": np.arange(32.0).reshape(8, 4)}

DIVIDES = "partitioned 3 times, but the dimension size is 8", "has 8 elements, which mesh axes 't' cannot split into 3 equal parts"
STORED = "stored", "stored"  # needs the stored sharding
# name: (arguments, None or what Orbax and Cairn say)
ARGS = {
    "sharding": ({"sharding": COLUMNS}, None),
    "mesh and axes": ({"mesh": FOUR, "mesh_axes": P("x", "y")}, None),
    "both: the mesh counts": ({"sharding": COLUMNS, "mesh": FOUR, "mesh_axes": P("x", "y")}, None),
    "both: the mesh counts, a bad sharding does not": ({"sharding": THIRDS, "mesh": TWO, "mesh_axes": P("a")}, None),
    "both: the mesh counts, a bad one, too": ({"sharding": COLUMNS, "mesh": THREE, "mesh_axes": P("t")}, DIVIDES),
    "half a mesh": ({"sharding": COLUMNS, "mesh": FOUR}, None),
    "half of axes": ({"sharding": COLUMNS, "mesh_axes": P("x")}, None),
    "nothing": ({}, STORED),
    "a mesh alone": ({"mesh": FOUR}, STORED),
    "axes alone": ({"mesh_axes": P("x")}, STORED),
    "no axes": ({"mesh": FOUR, "mesh_axes": P()}, None),
    "one device": ({"sharding": SingleDeviceSharding(DEVICES[3])}, None),
    "metadata of a sharding": ({"sharding": sharding_metadata.from_jax_sharding(COLUMNS)}, None),
    "rows by three": ({"sharding": THIRDS}, DIVIDES),
    "nine rows by three": ({"sharding": THIRDS, "shape": (9, 4), "strict": False}, None),
    "columns by two axes": ({"sharding": NamedSharding(FOUR, P(None, ("x", "y")))}, None),
    "six rows by two axes": ({"sharding": NamedSharding(FOUR, P(("x", "y"))), "shape": (6, 4), "strict": False},
                             ("partitioned 4 times, but the dimension size is 6", "has 6 elements, which mesh axes 'x', 'y' cannot split into 4 equal parts")),
    "more axes than dimensions": ({"sharding": NamedSharding(FOUR, P(None, None, "x"))}, ("list index out of range", "the partition spec has 3 entries, but the array")),
    "another shape": ({"sharding": COLUMNS, "shape": (4, 4)}, ("is not compatible with the stored shape", "is stored with shape (8, 4), but shape (4, 4)")),
    "another rank": ({"sharding": COLUMNS, "shape": (8, 4, 1), "strict": False}, ("Ranks do not match", "ranks do not match")),
    "of any type": ({"restore_type": None}, None),
    "a host array": ({"restore_type": np.ndarray, "sharding": COLUMNS}, None),
}
NONE_STORED = {"no file": ("Sharding of jax.Array cannot be None", "cannot be None: none is stored"),
               "not of this leaf": ("refers to non-existent object member", "the sharding file has no sharding of this array")}


def agree(got, value, error, words, of=""):
    if words is None:
        assert error is None, (of, error)
        assert not difference(tree_json.normal(got["tree"]), tree_json.normal(tree_json.to_json(value))), of
        return
    theirs, ours = words
    assert error is not None and theirs in str(error), (of, error)
    assert got.get("code") == "invalid_argument" and ours in got["error"], (of, got)


def words_of(name, leaf, has_file):
    """Of the stored shardings, only the device array has one; without a type, a host array needs none."""
    words = ARGS[name][1]
    if words is STORED or (name == "of any type" and leaf == "devices"):
        return NONE_STORED["no file"] if not has_file else None if leaf == "devices" else NONE_STORED["not of this leaf"]
    return words


@pytest.mark.covers(
    "type_handlers.ArrayRestoreArgs",
    note="`Sharding` also stands for `ShardingMetadata`.",
)
@pytest.mark.parametrize("has_file", [True, False])
def test_which_sharding_counts(scratch, has_file):
    handler, path = ocp.PyTreeCheckpointHandler(), scratch / "ckpt"
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(TREE))
    if not has_file:
        (path / "_sharding").unlink()
    cases = [(name, leaf, {leaf: ocp.ArrayRestoreArgs(**given)}) for name, (given, _) in ARGS.items() for leaf in TREE]
    jobs = [{"op": "restore", "dir": str(path), "item": tree_json.to_json({leaf: 0}), "partial": True, "restore_args": tree_json.to_json(args)} for _, leaf, args in cases]
    for (name, leaf, args), got in zip(cases, run(jobs), strict=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value, error = outcome(lambda: handler.restore(path, args=ocp.args.PyTreeRestore({leaf: 0}, args, partial_restore=True)))
        words = words_of(name, leaf, has_file)
        agree(got, value, error, words, (name, leaf, got))
        assert words is None or got["error"].startswith(f"{leaf}: ")


@pytest.mark.covers("type_handlers.ArrayRestoreArgs")
def test_two_shapes_are_refused(scratch):
    """By Orbax when the arguments are made."""
    with pytest.raises(ValueError, match="they must match"):
        ocp.ArrayRestoreArgs(global_shape=(8, 4), shape=(4, 4))
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "ckpt", args=ocp.args.PyTreeSave(TREE))
    args = tree_json.to_json({"devices": ocp.ArrayRestoreArgs(sharding=COLUMNS), "host": ocp.RestoreArgs()})
    args["dict"][0][1]["array_restore_args"] |= {"global_shape": [8, 4], "shape": [4, 4]}
    [got] = run([{"op": "restore", "dir": str(scratch / "ckpt"), "restore_args": args}])
    assert got["code"] == "invalid_argument" and "global_shape (8, 4) and shape (4, 4) must match" in got["error"], got


# ---- metadata trees ----
NESTED = TREE | {"number": 3, "text": "text", "pair": (1, {"x": np.zeros(2)}), "nothing": {}}


@pytest.mark.parametrize("rich", [False, True])
def test_metadata_trees_are_items_and_arguments(scratch, rich):
    """The leaves of a metadata tree are a target's like any others, and as arguments they stand for the defaults."""
    options = {"support_rich_types": rich}
    handler = ocp.PyTreeCheckpointHandler(pytree_metadata_options=tree_metadata.PyTreeMetadataOptions(support_rich_types=rich))
    path, other = scratch / "ckpt", scratch / "other"
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(NESTED))
        checkpointer.save(other, args=ocp.args.PyTreeSave(NESTED | {"devices": TREE["devices"][:4].astype(np.float16), "host": TREE["host"].astype(np.int32)}))
    theirs, others = handler.metadata(path), handler.metadata(other)
    placed = jax.tree.map(lambda _: ocp.RestoreArgs(), handler.restore(path)) | {"devices": ocp.ArrayRestoreArgs(sharding=COLUMNS)}
    loose = placed | {"devices": ocp.ArrayRestoreArgs(sharding=COLUMNS, strict=False)}
    cast = placed | {"host": ocp.ArrayRestoreArgs(sharding=COLUMNS), "devices": ocp.RestoreArgs(restore_type=np.ndarray)}
    shape = "is not compatible with the stored shape", "devices: is stored with shape (8, 4), but shape (4, 4)"
    cases = [
        ({"item": theirs}, {"item_metadata": path}, None),
        ({"item": theirs.tree}, {"item_metadata": path}, None),
        ({"restore_args": theirs}, {"args_metadata": path}, None),
        ({"item": theirs, "restore_args": theirs}, {"item_metadata": path, "args_metadata": path}, None),
        ({"item": theirs.tree, "restore_args": placed}, {"item_metadata": path, "restore_args": placed}, None),
        # Shape and dtype of a target count where the arguments are strict.
        ({"item": others.tree, "restore_args": placed}, {"item_metadata": other, "restore_args": placed}, shape),
        ({"item": others.tree, "restore_args": loose}, {"item_metadata": other, "restore_args": loose}, None),
        ({"item": others.tree, "restore_args": cast}, {"item_metadata": other, "restore_args": cast}, None),
        ({"item": theirs.tree, "restore_args": placed, "transforms": {}}, {"item_metadata": path, "restore_args": placed, "transforms": []}, None),
    ]
    jobs = []
    for _, given, _ in cases:
        job = {key: str(value) if key.endswith("metadata") else value for key, value in given.items()}
        if "restore_args" in job:
            job["restore_args"] = tree_json.to_json(job["restore_args"])
        jobs.append({"op": "restore", "dir": str(path), "options": options} | job)
    for number, ((given, _, words), got) in enumerate(zip(cases, run(jobs), strict=True)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value, error = outcome(lambda: handler.restore(path, args=ocp.args.PyTreeRestore(**given)))
        agree(got, value, error, words, number)
    value = handler.restore(path, args=ocp.args.PyTreeRestore(others.tree, cast))["host"]
    assert value.dtype == np.int32  # the dtype of the target has had an effect
