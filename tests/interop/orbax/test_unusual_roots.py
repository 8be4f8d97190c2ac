"""Directories that Orbax opens although something is missing, and roots with a damaged item: what Orbax says, and what Cairn does."""

import json

import numpy as np
import orbax.checkpoint as ocp
from orbax.checkpoint import v1 as ocp1
import pytest

import cairn_cli

TREE = {"a": np.arange(4, dtype=np.float32), "n": 3}


@pytest.fixture
def root(scratch):
    with ocp.CheckpointManager(scratch / "root") as manager:
        for step in (1, 2):
            manager.save(step, args=ocp.args.StandardSave(TREE))
    return scratch / "root"


def latest_of_orbax(path):
    with ocp.CheckpointManager(path) as manager:
        return manager.latest_step(), manager.restore(manager.latest_step())


def latest_of_cairn(path):
    return json.loads(cairn_cli.run("info", "--json", path).stdout)["step"]


def alter(checkpoint, **members):
    file = checkpoint / "_CHECKPOINT_METADATA"
    file.write_text(json.dumps(json.loads(file.read_text()) | members))


@pytest.mark.covers("errors.commit_time")
@pytest.mark.parametrize("markers", ["all", "none", "items"])
def test_a_commit_time_is_not_critical(root, markers):
    """Orbax lists the commit time among the metadata that may be absent. It judges a local directory by its name."""
    alter(root / "2", commit_timestamp_nsecs=None)
    if markers != "all":
        (root / "2" / "commit_success.txt").unlink()
    if markers == "none":
        (root / "2" / "default" / "commit_success.txt").unlink()
    step, tree = latest_of_orbax(root)
    assert step == latest_of_cairn(root) == 2
    assert cairn_cli.cat(root, "a") == tree["a"].tobytes()
    assert cairn_cli.cat(root / "2", "a") == tree["a"].tobytes()


@pytest.mark.parametrize("version", [0, 1])
def test_a_commit_time_is_not_critical_of_one_checkpoint(scratch, version):
    path = scratch / "ckpt"
    if version == 1:
        ocp1.save(path, TREE)
    else:
        with ocp.StandardCheckpointer() as checkpointer:
            checkpointer.save(path, TREE)
    alter(path, commit_timestamp_nsecs=None)
    (path / "commit_success.txt").unlink()
    np.testing.assert_array_equal(ocp1.load(path)["a"], TREE["a"])
    assert cairn_cli.cat(path, "a") == TREE["a"].tobytes()


@pytest.mark.covers("errors.unfinished_in_place")
def test_a_save_that_wrote_nothing_yet_is_refused(root):
    """A start time alone is the state before the data. Orbax opens it by its name and may lack arrays; Cairn refuses."""
    alter(root / "2", commit_timestamp_nsecs=None, item_handlers=None)
    for marker in (root / "2").rglob("commit_success.txt"):
        marker.unlink()
    assert latest_of_cairn(root) == 1
    refused = cairn_cli.run("ls", root / "2", status=cairn_cli.IO)
    assert b"never committed" in refused.stderr


@pytest.mark.covers("errors.empty_step")
def test_an_empty_step(root):
    """It is Orbax's latest step, and Orbax restores nothing from it. Cairn opens the step before, and `info` names the empty one."""
    (root / "11").mkdir()
    step, restored = latest_of_orbax(root)
    assert step == 11 and len(list(restored.items())) == 0
    info = json.loads(cairn_cli.run("info", "--json", root).stdout)
    assert info["step"] == 2
    assert "11" in json.dumps(info["facts"])
    asked = cairn_cli.run("ls", "--step", 11, root, status=cairn_cli.IO)
    assert b"the folder is empty (Orbax counts it as a step)" in asked.stderr


def test_a_root_of_empty_steps(scratch):
    (scratch / "root" / "7").mkdir(parents=True)
    assert latest_of_orbax(scratch / "root")[0] == 7
    refused = cairn_cli.run("ls", scratch / "root", status=cairn_cli.IO)
    assert b"has no complete step" in refused.stderr and b"Orbax counts it as a step" in refused.stderr


@pytest.fixture
def two_items(scratch):
    items = ocp.args.Composite(params=ocp.args.StandardSave(TREE), ema=ocp.args.StandardSave(TREE), config=ocp.args.JsonSave({"x": 1}))
    with ocp.CheckpointManager(scratch / "root") as manager:
        manager.save(5, args=items)
    (scratch / "root" / "5" / "ema" / "_METADATA").write_text('{"tree')
    return scratch / "root"


@pytest.mark.covers("errors.damaged_item")
def test_a_damaged_item_does_not_hide_the_others(two_items):
    with ocp.CheckpointManager(two_items) as manager:
        only = manager.restore(5, args=ocp.args.Composite(params=ocp.args.StandardRestore()))
        with pytest.raises(Exception):
            manager.restore(5, args=ocp.args.Composite(ema=ocp.args.StandardRestore()))
    for command in (["ls"], ["ls", "--json"], ["info"], ["tree"]):
        done = cairn_cli.run(*command, two_items, status=cairn_cli.IO)
        assert b"params" in done.stdout, command
        assert b"ema" in done.stdout and b"ema/: the item cannot be opened" in done.stderr, command
    assert cairn_cli.cat(two_items, "params/a") == only["params"]["a"].tobytes()
    assert len(cairn_cli.verify(two_items, status=cairn_cli.NO)["findings"]) > 0


def test_a_damaged_item_is_not_dropped(two_items, scratch):
    """What writes all items refuses, and names the damaged one; one good item can be chosen."""
    for command in (["reshard", "--chunk-bytes", 1000], ["convert"]):
        refused = cairn_cli.run(command[0], *command[1:], two_items, scratch / "out", *(["--to", "orbax"] if command[0] == "convert" else []), status=cairn_cli.IO)
        assert b"ema/: the item cannot be opened" in refused.stderr
        assert not (scratch / "out").exists()
    cairn_cli.run("reshard", "--chunk-bytes", 1000, "--item", "params", two_items, scratch / "out")
    assert cairn_cli.cat(scratch / "out", "a") == TREE["a"].tobytes()


def test_all_items_damaged(two_items):
    (two_items / "5" / "params" / "_METADATA").write_text("[")
    refused = cairn_cli.run("ls", two_items, status=cairn_cli.IO)
    assert b"_METADATA" in refused.stderr and refused.stdout == b""


@pytest.mark.covers("errors.step")
def test_a_step_that_is_missing(root):
    """Both name it, and neither takes another step for it. Only Orbax's manager looks for a folder."""
    with ocp.CheckpointManager(root) as manager, pytest.raises(FileNotFoundError, match="9 not found"):
        manager.restore(9)
    with pytest.raises(ValueError, match="No step path found"):
        ocp.step.standard_name_format().find_step(root, 9)
    assert b"step 9" in cairn_cli.run("ls", "--step", 9, root, status=cairn_cli.IO).stderr
    with pytest.raises(FileNotFoundError, match="not found"):
        ocp.StandardCheckpointer().restore(root / "none")
    assert b"no such file" in cairn_cli.run("ls", root / "none", status=cairn_cli.IO).stderr


@pytest.mark.covers("manager.CheckpointManagerOptions.step_name_format", "errors.step_name")
@pytest.mark.parametrize("name", ["x", "step", "1.tmp", "-1", "1e3", "12"])
def test_names_that_are_not_steps(root, name):
    """Orbax raises for one name and passes over it in a root; Cairn passes over it."""
    (root / "2").rename(root / name)
    try:
        step = ocp.step.step_from_checkpoint_name(name)
    except ValueError:
        step = None
    assert step == (12 if name == "12" else None)
    assert latest_of_orbax(root)[0] == latest_of_cairn(root) == max(1, step or 1)
