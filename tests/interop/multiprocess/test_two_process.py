"""Checkpoints saved by two real processes that meet through jax.distributed on the loopback device."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

import cairn_cli
import test_golden
import test_manager_kills
import test_msgpack_write
import two_process


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """All variants, saved once; (folder, {variant: leaf records})."""
    root = tmp_path_factory.mktemp("pair") / "saved"
    seed = os.environ["CAIRN_FRESH_SEED"]
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
