"""Steps that lack files: what `cairn steps` says of them, and what prune, load and managers do."""

import json
import os
import shutil

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

import cairn
from command import good, run


def save_items(path, **options):
    tree = {"w": np.arange(600, dtype=np.float32).reshape(20, 30), "b": [np.int16(3), "a string"], "n": {}}
    items = ocp.args.Composite(
        params=ocp.args.PyTreeSave(tree),
        state=ocp.args.StandardSave({"m": np.ones(4)}),
        config=ocp.args.JsonSave({"n": 1}),
        key=ocp.args.JaxRandomKeySave(jax.random.key(0)),
    )
    composite = ocp.CompositeCheckpointHandler("state", "config", "key", params=ocp.PyTreeCheckpointHandler(**options))
    with ocp.Checkpointer(composite) as checkpointer:
        checkpointer.save(path, items)


KINDS = {
    "ocdbt": lambda path: save_items(path),
    "ocdbt_zarr3": lambda path: save_items(path, use_zarr3=True),
    "folders": lambda path: save_items(path, use_ocdbt=False),
    "folders_zarr3": lambda path: save_items(path, use_ocdbt=False, use_zarr3=True),
    "direct": lambda path: ocp.PyTreeCheckpointer().save(path, {"w": np.arange(600, dtype=np.float32)}),
    "cairn": lambda path: cairn.save(path, {"w": np.arange(600, dtype=np.float32), "s": "text"}),
    "cairn_raw_folders": lambda path: cairn.save(path, {"w": np.arange(600, dtype=np.float32)}, use_ocdbt=False, compression="none"),
}


@pytest.fixture(scope="module", params=KINDS)
def written(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("steps") / "run"
    for step in (1, 2, 3):
        KINDS[request.param](root / str(step))
    return root


def files_of(step):
    return sorted(path.relative_to(step) for path in step.rglob("*") if path.is_file())


def is_named(file):
    """Whether the step cannot be complete without the file, whatever else it has."""
    if file.parts[0] == "key":
        return file.name == "metadata"
    if file.parent.name.startswith("ocdbt.process_"):
        return False  # the merged database refers only to some data files of the processes
    return file.name in ("_METADATA", "manifest.ocdbt", "_strings.json", ".zarray", "zarr.json")


def reason_of(root, step):
    return next(record["reason"] for record in cairn.steps(root) if record["step"] == step)


def leaves(tree):
    return [np.asarray(leaf).tolist() for leaf in jax.tree_util.tree_leaves(tree)]


def restored(step):
    """What the step holds; None if it cannot be read."""
    try:
        return [leaves(cairn.load(step, item=item)) for item in (("params", "state") if (step / "params").exists() else (None,))]
    except (OSError, ValueError, cairn.CorruptionError):
        return None


@pytest.mark.parametrize("damage", ["removed", "half"])
@pytest.mark.filterwarnings("ignore")
def test_every_file_that_a_record_names(written, damage):
    """A step without the file, or with half of it, is not complete; a step that counts restores."""
    step = written / "3"
    whole = restored(step)
    assert reason_of(written, 3) is None
    examined = 0
    for file in files_of(step):
        content = (step / file).read_bytes()
        if damage == "half" and len(content) < 2:
            continue
        (step / file).unlink()
        try:
            if damage == "half":
                (step / file).write_bytes(content[: len(content) // 2])
            reason = reason_of(written, 3)
            if reason is None:
                assert not is_named(file), file
                # No record has the size of a compressed chunk in a folder of its own.
                is_chunk = damage == "half" and ("c" in file.parts or file.name.replace(".", "").isdigit())
                assert is_chunk or restored(step) == whole, file
            else:
                assert file.name in reason or file.parts[-2] in reason, (file, reason)
        finally:
            (step / file).write_bytes(content)
        examined += 1
    assert examined > 3 and reason_of(written, 3) is None


@pytest.mark.filterwarnings("ignore")
def test_every_folder(written, tmp_path):
    """A copy that lacks one folder of the step; prune and load keep to the step before."""
    folders = sorted(path.relative_to(written / "3") for path in (written / "3").rglob("*") if path.is_dir())
    for folder in folders:
        root = shutil.copytree(written, tmp_path / "run")
        shutil.copytree(root / "3", root / "9")
        shutil.rmtree(root / "9" / folder)
        reason = reason_of(root, 9)
        if reason is None:
            # Nothing of the folder is referred to: the data of a database that was merged.
            assert restored(root / "9") == restored(root / "3"), folder
        else:
            good("prune", root, "--keep-last", "1")
            assert sorted(os.listdir(root)) == ["3", "9"], folder
            assert json.loads(run("info", root, "--json").stdout)["step"] == 3
        shutil.rmtree(root)


def test_why_a_step_is_passed_over(tmp_path):
    for step in (1, 2):
        cairn.save(tmp_path / "run" / str(step), {"w": np.full(4, step)})
    shutil.rmtree(tmp_path / "run/2/d")
    with pytest.warns(UserWarning, match="run/2 is not complete, so it was not opened: .*the data file is missing"):
        assert cairn.load(tmp_path / "run")["w"][0] == 1
    listed = run("ls", tmp_path / "run")
    assert listed.returncode == 0 and b"run/2 is not complete" in listed.stderr
    # If no step is complete, the newest is opened, and its errors are those of any checkpoint.
    shutil.rmtree(tmp_path / "run/1/d")
    with pytest.raises(cairn.CorruptionError, match="run/2/d/.*the data file is missing"):
        cairn.load(tmp_path / "run")


def test_prune_keeps_what_links_lead_to(tmp_path):
    """A link to a step, one to a part of a step inside a step that stays, and one with another name."""
    root = tmp_path / "run"
    for step in range(1, 8):
        cairn.save(root / str(step), {"w": np.full(4, step)})
    (root / "100").symlink_to("3")
    (root / "best").symlink_to("2")
    (root / "7" / "extra").symlink_to("../1/_METADATA")
    outcome = {record["step"]: record for record in json.loads(run("prune", root, "--keep-last", "2", "--json").stdout)}
    assert {step: record["outcome"] for step, record in outcome.items()} == {
        1: "kept", 2: "kept", 3: "kept", 4: "removed", 5: "removed", 6: "removed", 7: "kept", 100: "kept"
    }
    assert str(root / "100") in outcome[3]["why"] and str(root / "best") in outcome[2]["why"]
    assert str(root / "7" / "extra") in outcome[1]["why"]
    assert np.all(cairn.load(root)["w"] == 3)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_manager_resumes_and_saves(tmp_path):
    with cairn.CheckpointManager(tmp_path / "run", max_to_keep=2) as manager:
        for step in (1, 2, 3):
            manager.save(step, {"w": np.full(4, step)})
    shutil.copytree(tmp_path / "run/3", tmp_path / "run/9")
    shutil.rmtree(tmp_path / "run/9/default/d")
    (tmp_path / "run/99999").mkdir()
    (tmp_path / "run/99998").mkdir()
    (tmp_path / "run/99998/plot.png").write_bytes(b"x")
    with cairn.CheckpointManager(tmp_path / "run", max_to_keep=2) as manager:
        assert manager.all_steps() == [2, 3] and manager.latest_step() == 3
        assert list(manager.incomplete_steps()) == [9, 99998, 99999]
        assert manager.incomplete_steps()[99998] == "the folder holds no checkpoint"
        assert manager.restore()["w"][0] == 3
        assert manager.save(4, {"w": np.full(4, 4)})
        assert manager.save(9, {"w": np.full(4, 9)})  # in the place of the copy
    assert sorted(os.listdir(tmp_path / "run")) == ["4", "9", "99998", "99999"]
    assert cairn.load(tmp_path / "run" / "9")["w"][0] == 9
    with cairn.CheckpointManager(tmp_path / "run") as manager:
        manager.delete(99999)
        with pytest.raises(FileExistsError, match="99998"):
            manager.delete(99998)
    assert sorted(os.listdir(tmp_path / "run")) == ["4", "9", "99998"]


def test_a_manager_warns_of_folders_that_do_not_count(tmp_path):
    (tmp_path / "run/7").mkdir(parents=True)
    with pytest.warns(UserWarning, match="run/7 does not count as a step: the folder is empty"):
        manager = cairn.CheckpointManager(tmp_path / "run")
    with pytest.raises(FileNotFoundError, match="no complete steps; step 7: the folder is empty"):
        manager.restore()
    assert manager.save(1, {"w": np.ones(2)}) and manager.latest_step() == 1
    manager.close()


def test_a_manager_keeps_what_links_lead_to(tmp_path):
    with cairn.CheckpointManager(tmp_path / "run", max_to_keep=1) as manager:
        manager.save(1, {"w": np.ones(2)})
        manager.wait_until_finished()
        (tmp_path / "run/best").symlink_to("1")
        for step in (2, 3):
            manager.save(step, {"w": np.ones(2)})
        manager.wait_until_finished()
        manager.reload()
        assert manager.all_steps() == [1, 3]
        with pytest.raises(RuntimeError, match="run/best leads to the step; remove the link first"):
            manager.delete(1)
        (tmp_path / "run/best").unlink()
        manager.delete(1)
    assert sorted(os.listdir(tmp_path / "run")) == ["3"]


def test_a_link_that_takes_the_place_of_a_step_keeps_its_target(tmp_path):
    """The manager has saved the step itself, so it knew that there were no links in it."""
    with cairn.CheckpointManager(tmp_path / "run", max_to_keep=2) as manager:
        for step in (1, 2):
            manager.save(step, {"w": np.full(2, step)})
        manager.wait_until_finished()
        shutil.rmtree(tmp_path / "run/2")
        (tmp_path / "run/2").symlink_to("1")
        manager.save(3, {"w": np.full(2, 3)})
    assert sorted(os.listdir(tmp_path / "run")) == ["1", "2", "3"]
    assert cairn.load(tmp_path / "run/2", item="default")["w"][0] == 1


def test_the_managers_in_the_place_of_orbax_warn(tmp_path, caplog):
    """They count the steps that Orbax counts, and say that the latest is not complete."""
    from cairn import orbax as drop_in
    from cairn.orbax import v1

    with drop_in.CheckpointManager(tmp_path / "run") as manager:
        for step in (1, 2):
            manager.save(step, args=drop_in.args.StandardSave({"w": np.ones(2)}))
    shutil.rmtree(tmp_path / "run/2/default/d")
    with ocp.CheckpointManager(tmp_path / "run") as theirs, drop_in.CheckpointManager(tmp_path / "run") as ours:
        assert ours.latest_step() == theirs.latest_step() == 2
    assert "run/2, is not complete: " in caplog.text
    caplog.clear()
    with v1.training.Checkpointer(tmp_path / "run") as ours:
        assert ours.latest.step == 2
    assert "run/2, is not complete: " in caplog.text
