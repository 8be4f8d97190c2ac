"""Checkpoints saved by two real processes that meet through jax.distributed on the loopback device."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
import tensorstore as ts
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import cairn_cli
import test_golden
import test_manager_kills
import test_msgpack_write
import test_single_replica
import tree_json
import two_process


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """All variants, saved once; (folder, {variant: leaf records})."""
    root = tmp_path_factory.mktemp("pair") / "saved"
    seed = os.environ["CAIRN_SEED"]
    subprocess.run([sys.executable, two_process.__file__, "--root", str(root), "--seed", seed], check=True, timeout=300)
    return root, json.loads((root / "expected.json").read_text())


def test_every_variant(saved):
    root, expected = saved
    assert sorted(expected) == sorted(two_process.VARIANTS)
    for variant, records in expected.items():
        for _, record in cairn_cli.compare_names(cairn_cli.ls(root / variant), records):
            test_golden.check_bytes(root / variant, record)
        cairn_cli.verify(root / variant)


def test_both_processes_wrote(saved):
    """Otherwise the test above would not show what it claims."""
    root, _ = saved
    for process in (0, 1):
        data = list((root / "ocdbt_zarr2" / f"ocdbt.process_{process}" / "d").iterdir())
        assert sum(file.stat().st_size for file in data) > 1000
        assert list((root / "replica_folders" / f"ocdbt.process_replica_{process}" / "d").iterdir())
    assert sum(file.stat().st_size for file in (root / "controller" / "ocdbt.process_controller" / "d").iterdir()) > 5000


@pytest.mark.covers("manager.CheckpointManager.reached_preemption")
def test_a_sigterm_reaches_one_of_two(saved, scratch):
    """JAX tells the other process; both save the same step and end. Cairn's pair restores it, and does the same from there."""
    root, _ = saved
    seen = [json.loads((root / f"preempted.{rank}.json").read_text()) for rank in (0, 1)]
    [first, last] = seen[0]
    assert seen[1] == seen[0] and first == 0 and last > 5
    run = scratch / "run"
    shutil.copytree(root / "preempted", run)
    assert sorted(os.listdir(run)) == sorted(["0", str(last)])
    cairn_cli.verify(run)
    pair = [test_manager_kills.Manager(run, scratch / "meeting", process, False, {"interval": 10**6, "sigterm": True}) for process in (0, 1)]

    def together(**job):
        for one in pair:
            one.send(**job)
        return [one.answer()["result"] for one in pair]

    assert [one.answer()["steps"] for one in pair] == [[0, last]] * 2
    assert together(op="restore") == [last] * 2
    assert together(op="save", step=last + 1) == [False] * 2
    pair[1].process.send_signal(signal.SIGTERM)
    time.sleep(0.1)  # it is noted before the step is decided on
    assert together(op="save", step=last + 2) == [True] * 2
    assert together(op="reached_preemption") == [True] * 2
    for one in pair:
        one.close()
    assert test_manager_kills.newest_of_orbax(run, False) == last + 2


@pytest.mark.covers("msgpack_utils.msgpack_serialize")
def test_msgpack_refuses_arrays_that_are_not_all_here(saved, scratch):
    root, _ = saved
    refused = json.loads((root / "refused.json").read_text())
    tool = test_msgpack_write.Tool(scratch)
    part = ["sharded", "float32", [8, 8], "00" * 256, [[0, [0, 0], [4, 8]]]]
    for dialect, error in refused.items():
        got = tool.ask((dialect, True), tree=["dict", [["w", part]]])
        assert error.startswith("RuntimeError: ") and "non-addressable" in error, (dialect, error)
        assert got["code"] == "failed_precondition" and got["error"].startswith("w: "), (dialect, got)
    assert sorted(refused) == ["flax", "flax-state", "orbax"]


# ---- each for itself ----
MESH = Mesh(np.array(jax.devices()).reshape(2, 4), ("process", "x"))


def apart_job(root, name, rest):
    arrays = {leaf: jax.device_put(values, NamedSharding(MESH, PartitionSpec(*spec))) for leaf, (values, spec) in two_process.apart_arrays().items()}
    return {"op": "save", "dir": str(root / f"{name}"), "options": {}, "item": tree_json.to_json(arrays | rest),
            "owners": [[0, 1, 2, 3], [4, 5, 6, 7]], "array": {"all_replicas": True, "use_replica_parallel": False}}


def keys_of(database):
    store = ts.KvStore.open({"driver": "ocdbt", "base": f"file://{database}/"}).result()
    return sorted(key.decode() for key in store.list().result())


def written(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file() and path.parent.name != "d")


@pytest.mark.covers(
    "pytree.PyTreeCheckpointHandler",
    note=(
        "With `primary_host=None`, each process also writes its host values. In Orbax, process 0 "
        "alone writes them."
    ),
)
def test_without_a_primary_each_saves_for_itself(saved, scratch):
    """Host values are the exception: in Orbax process 0 writes them, so the checkpoint of process 1 lacks them."""
    theirs, _ = saved
    done = cairn_cli.answers("pytree_tool", [apart_job(scratch, "arrays", {}), apart_job(scratch, "all", two_process.APART_REST)])
    assert done == [{"done": True}] * 2
    for process in (0, 1):
        mine, other = scratch / f"arrays{process}", theirs / f"apart_arrays{process}"
        assert written(mine) == written(other)
        for database in (f"ocdbt.process_{process}", "."):
            assert keys_of(mine / database) == keys_of(other / database)
        for name in (f"array_metadatas/process_{process}", "_METADATA"):
            assert json.loads((mine / name).read_text()) == json.loads((other / name).read_text())
        want = {leaf: values for leaf, (values, _) in two_process.apart_arrays().items()}
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
            args = ocp.args.PyTreeRestore(restore_args={leaf: ocp.RestoreArgs(restore_type=np.ndarray) for leaf in want})
            for folder in (mine, other):
                got = checkpointer.restore(folder, args=args)
                assert all(got[leaf].dtype == values.dtype and np.array_equal(got[leaf], values) for leaf, values in want.items()), folder
        for folder in (mine, other):
            assert all(cairn_cli.cat(folder, leaf) == values.tobytes() for leaf, values in want.items()), folder
        assert "step" in cairn_cli.run("ls", scratch / f"all{process}").stdout.decode()
        assert cairn_cli.cat(scratch / f"all{process}", "step") == np.int64(5).tobytes()
        assert cairn_cli.call("cat", theirs / f"apart_all{process}", "step").returncode == (cairn_cli.GOOD if process == 0 else cairn_cli.IO)


@pytest.mark.covers("type_handlers.SingleReplicaArrayHandler")
def test_outside_the_primary_replica_shapes_and_types_are_needed(saved, scratch):
    root, _ = saved
    theirs = json.loads((root / "outside.json").read_text())
    assert sorted(theirs) == sorted(two_process.OUTSIDE)
    for name, lacks in two_process.OUTSIDE.items():
        assert theirs[name].startswith("ValueError: Restoring outside the primary replica requires `global_shape` and `dtype`"), theirs
        args = []
        for process in (0, 1):
            of = {leaf: {"global_shape": values.shape, "dtype": values.dtype} for leaf, (values, _) in two_process.apart_arrays().items()}
            if process == 1:
                for member in lacks:
                    del of["v"][member]
            args.append(tree_json.to_json({leaf: ocp.type_handlers.SingleReplicaArrayRestoreArgs(sharding=NamedSharding(MESH, PartitionSpec()), **more) for leaf, more in of.items()}))
        [ours] = test_single_replica.run([{"dirs": [str(root / "apart_arrays0")] * 2, "owners": [[0, 1, 2, 3], [4, 5, 6, 7]], "options": {}, "restore_args": args}])
        assert ours["code"] == "invalid_argument" and f"process 1: v: has no {lacks[0]}" in ours["error"] and "outside the primary replica" in ours["error"], ours
