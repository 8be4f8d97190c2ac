"""What cairn::save and Cairn's Checkpointer both take, the real Orbax restores: sharded arrays, arrays of size zero, NumPy bools, empty named tuples."""

import json
import subprocess

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

import cairn_cli
import leaves
import random_trees
import tree_json
from test_pytree_handler import run

LAYOUTS = [{"use_ocdbt": ocdbt, "use_zarr3": zarr3} for ocdbt in (True, False) for zarr3 in (True, False)]


def save(op, path, tree, options):
    """The tree as JSON: Orbax's own types, or what only Cairn stores."""
    jobs = [{"op": op, "dir": str(path), "options": options, "item": tree}]
    if op == "save":
        jobs.append({"op": "finalize", "dir": str(path), "options": options})
    done = subprocess.run([cairn_cli.TOOLS / "pytree_tool"], input=json.dumps(jobs), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [{"done": True}] * len(jobs)


@pytest.mark.covers(
    "type_handlers.NumpyHandler",
    note="Arrays of size 0 are stored, and Orbax restores them. Orbax itself refuses them.",
)
@pytest.mark.covers(
    "type_handlers.ScalarHandler",
    note="NumPy's bool scalars are stored, and Orbax restores them. Orbax itself refuses them.",
)
@pytest.mark.parametrize("op", ["save", "save_checkpoint"])
@pytest.mark.parametrize("options", LAYOUTS, ids=str)
def test_orbax_restores(op, options, scratch):
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x", "y"))
    device = jax.device_put(np.arange(128, dtype=np.float32).reshape(16, 8), spread)
    tree = {"device": device, "empty": np.zeros((0, 3), np.int16), "empty device": jax.device_put(np.zeros((0, 8), np.float32), spread),
            "host": np.arange(5, dtype=np.int32), "key": jax.random.key(7), "bool": np.bool_(True), "nothing": random_trees.Nothing(), "list": [1, 2.5, "text", None]}
    save(op, scratch / "saved", tree_json.to_json(tree), options)
    cairn_cli.verify(scratch / "saved")
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        restored = checkpointer.restore(scratch / "saved")
    assert restored["device"].sharding == spread
    assert leaves.raw_bytes(restored["device"]) == leaves.raw_bytes(device)
    assert (restored["empty"].shape, restored["empty"].dtype) == ((0, 3), np.int16)
    assert (restored["empty device"].shape, restored["empty device"].dtype) == ((0, 8), np.float32)
    assert restored["empty device"].sharding == spread
    assert restored["host"].tolist() == [0, 1, 2, 3, 4]
    assert jax.random.key_data(restored["key"]).tolist() == jax.random.key_data(tree["key"]).tolist()
    assert restored["bool"] and restored["nothing"] is None
    assert restored["list"] == [1, 2.5, "text", None]


@pytest.mark.parametrize("options", LAYOUTS, ids=str)
def test_manager_restores_steps_of_async_checkpointer(options, scratch):
    tree = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "step": 7, "name": "adam"}
    jobs = [{"op": "save_step", "dir": str(scratch / "root" / str(step)), "options": options, "item_name": "default",
             "item": tree_json.to_json({**tree, "step": step})} for step in (3, 12)]
    done = subprocess.run([cairn_cli.TOOLS / "pytree_tool"], input=json.dumps(jobs), capture_output=True, text=True, timeout=300)
    assert done.stdout and json.loads(done.stdout) == [{"done": True}] * 2, done
    with ocp.CheckpointManager(scratch / "root", item_handlers=ocp.PyTreeCheckpointHandler()) as manager:
        assert manager.all_steps() == [3, 12] and manager.latest_step() == 12
        assert manager.item_metadata(12)["w"].shape == (2, 3)
        for step in (3, 12):
            restored = manager.restore(step, args=ocp.args.PyTreeRestore())
            np.testing.assert_array_equal(restored["w"], tree["w"])
            assert (restored["step"], restored["name"]) == (step, "adam")
        # and goes on where Cairn stopped
        manager.save(13, args=ocp.args.PyTreeSave({"w": tree["w"]}))
        manager.wait_until_finished()
        assert manager.all_steps() == [3, 12, 13]
    cairn_cli.verify(scratch / "root")


@pytest.mark.covers("atomicity.CommitFileTemporaryPath")
def test_a_save_in_place_replaces_an_older_one(scratch):
    """Only with `force`; nothing of the older one stays, and each package restores what the other one saved."""
    older, newer = {"old": np.arange(3), "both": 1}, {"new": np.arange(4.0), "both": 2}
    in_place = ocp.path.atomicity.CommitFileTemporaryPath
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False), temporary_path_class=in_place) as theirs:
        theirs.save(scratch / "theirs", args=ocp.args.PyTreeSave(older))
        with pytest.raises(ValueError, match="already exists"):
            theirs.save(scratch / "theirs", args=ocp.args.PyTreeSave(newer))
        theirs.save(scratch / "theirs", args=ocp.args.PyTreeSave(newer), force=True)
        job = {"op": "save_in_place", "dir": str(scratch / "ours"), "options": {"use_ocdbt": False}}
        older, newer = tree_json.to_json(older), tree_json.to_json(newer)
        first, refused, forced = run([job | {"item": older}, job | {"item": newer}, job | {"item": newer, "force": True}])
        assert first == forced == {"done": True} and refused["code"] == "already_exists", refused
        restored = [theirs.restore(scratch / side) for side in ("theirs", "ours")]
    for tree in restored:
        np.testing.assert_array_equal(tree.pop("new"), np.arange(4.0))
        assert tree == {"both": 2}
    for side in ("theirs", "ours"):
        assert (scratch / side / "commit_success.txt").exists() and not (scratch / side / "old").exists()
        assert sorted(entry["name"] for entry in cairn_cli.ls(scratch / side)) == ["both", "new"]
