"""Managers, step names and version 1 at memory://, a store of the process."""

import datetime
import uuid

import numpy as np
import pytest

import cairn.orbax as ocp
import cairn.orbax.v1 as v1
from cairn.orbax._impl.paths.store_path import StorePath


@pytest.fixture
def root():
    return StorePath(f"memory://{uuid.uuid4().hex}/run")


def tree(step):
    return {"x": np.arange(3) + step, "n": step}


def save(root, *steps, **options):
    with ocp.CheckpointManager(root, options=ocp.CheckpointManagerOptions(**options)) as manager:
        for step in steps:
            manager.save(step, args=ocp.args.StandardSave(tree(step)), metrics={"m": -step})
    return manager.all_steps()


def names(root, *below):
    return sorted(str(path.relative_to(root)) for path in root.joinpath(*below).rglob("*"))


def test_a_run_in_a_store_is_that_of_a_directory(root, tmp_path):
    options = {"max_to_keep": 2, "best_fn": lambda metrics: metrics["m"]}
    assert save(root, 1, 2, 3, **options) == save(tmp_path, 1, 2, 3, **options) == [1, 2]
    for place in (root, tmp_path):
        with ocp.CheckpointManager(place, metadata={"a": 1}) as manager:
            assert manager.directory == place and manager.latest_step() == 2
            assert manager.restore()["n"] == 2 and manager.restore(1)["x"].tolist() == [1, 2, 3]
            assert manager.metadata().custom_metadata == {"a": 1}
            assert manager.metadata(1).metrics == {"m": -1}
            manager.delete(1)
            assert manager.all_steps() == [2]
    stored = {path.name for path in root.iterdir()}
    assert stored == {path.name for path in tmp_path.iterdir()} == {"2", "metadata"}


def test_a_step_that_is_not_complete_does_not_count(root):
    save(root, 1, 2, 3)
    (root / "3" / "commit_success.txt").unlink()
    (root / "3" / "_CHECKPOINT_METADATA").write_text('{"init_timestamp_nsecs": 5}')
    step = ocp.path.step
    standard = step.standard_name_format()
    assert sorted(found.step for found in standard.find_all(root)) == [1, 2]
    assert step.latest_step_metadata(root, standard).path == root / "2"
    assert sorted(step.checkpoint_steps(root)) == [1, 2] and step.tmp_checkpoints(root) == ["3"]
    with pytest.raises(ValueError, match="No step path found with name=3"):
        step.find_step_path(root, standard, step=3)
    found = step.find_step_path(root, standard, step=3, include_uncommitted=True)
    assert found == root / "3"
    with ocp.CheckpointManager(root) as manager:
        with pytest.raises(ValueError, match="incomplete"):
            manager.restore(3)
        assert manager.all_steps() == [1, 2]
    assert save(root, cleanup_tmp_directories=True) == [1, 2] and not (root / "3").exists()


def test_the_time_of_a_step_without_a_record_is_that_of_its_files(root):
    save(root, 1)
    (root / "1" / "_CHECKPOINT_METADATA").unlink()
    (found,) = ocp.path.step.standard_name_format().find_all(root)
    now = datetime.datetime.now(tz=datetime.timezone.utc)
    assert abs(now - found.commit_timestamp) < datetime.timedelta(minutes=10)


def test_removed_steps_go_where_the_options_say(root, caplog):
    save(root, 1, 2, 3, max_to_keep=1, todelete_subdir="aside")
    assert "todelete_subdir has no effect" in caplog.text
    assert {path.name for path in root.iterdir()} == {"3"}
    save(root, 4, 5, max_to_keep=1, todelete_full_path="old/steps")
    assert {path.name for path in root.iterdir()} == {"5"}
    moved = sorted(path.name for path in (root.parent / "old/steps").iterdir())
    assert [name.split("-")[0] for name in moved] == ["3", "4"]
    kept = ocp.StandardCheckpointer().restore(root.parent / "old/steps" / moved[0] / "default")
    assert kept["n"] == 3


def test_a_step_has_a_copy_while_it_is_waited_for(root):
    save(root, 1)
    with ocp.checkpoint_utils.wait_for_new_checkpoint(root, timeout=0) as step:
        assert step == 1
        assert names(root, "1") == [
            name.removeprefix("_SNAPSHOTS/") for name in names(root, "_SNAPSHOTS", "1")
        ]
    assert not (root / "_SNAPSHOTS").exists()
    assert list(ocp.checkpoint_utils.checkpoints_iterator(root, timeout=0)) == [1]


def test_an_empty_run(root):
    with ocp.CheckpointManager(root) as manager:
        assert manager.all_steps() == [] and manager.latest_step() is None
        with pytest.raises(FileNotFoundError):
            manager.restore()
        with pytest.raises(FileNotFoundError):
            manager.delete(1)
        assert manager.metadata().custom_metadata == {}
    assert list(ocp.path.step.standard_name_format().find_all(root)) == []


def test_version_1(root):
    v1.save(root / "a", tree(1), custom_metadata={"c": 1})
    with pytest.raises(ValueError, match="exists"):
        v1.save(root / "a", tree(2))
    v1.save_async(root / "a", tree(2), overwrite=True).result()
    assert v1.load(root / "a")["n"] == 2 and v1.is_orbax_checkpoint(root / "a")
    parts = {"state": tree(3), "more": {"y": np.ones(2)}}
    v1.save_checkpointables(root / "b", parts)
    assert v1.delete(root / "b", checkpointable_name="more")
    assert list(v1.load_checkpointables(root / "b")) == ["state"]
    assert v1.delete(root / "b") and not (root / "b").exists()
    with pytest.raises(ValueError, match="partial saves need a local directory"):
        v1.partial.save(root / "c", tree(1))


def test_a_deletion_of_a_part_goes_on(root, monkeypatch):
    parts = {"state": tree(3), "more": {"y": np.ones(2)}}
    v1.save_checkpointables(root / "a", parts)
    with monkeypatch.context() as patched:
        patched.setattr(StorePath, "rmtree", lambda path: exec("raise OSError(path)"))
        with pytest.raises(OSError):
            v1.delete(root / "a", checkpointable_name="more")
    assert list(v1.load_checkpointables(root / "a")) == ["state"]
    with pytest.raises(v1.errors.DeletionInProgressError):
        v1.load_checkpointables(root / "a", {"more": None})
    assert v1.delete(root / "a", checkpointable_name="more")
    assert not (root / "a" / "_CHECKPOINT_DELETION").exists()
    assert list(v1.load_checkpointables(root / "a")) == ["state"]


def test_the_steps_of_version_1(root):
    latest = v1.training.preservation_policies.LatestN(2)
    with v1.training.Checkpointer(root, preservation_policy=latest) as steps:
        for step in (1, 2, 3):
            assert steps.save(step, tree(step), metrics={"m": step})
        assert [(one.step, one.metrics) for one in steps.checkpoints] == [
            (2, {"m": 2}),
            (3, {"m": 3}),
        ]
        assert steps.load(2)["n"] == 2 and steps.metadata(3).metrics == {"m": 3}
        assert steps.delete(3)
    assert {path.name for path in root.iterdir()} == {"2"}
    with ocp.CheckpointManager(root) as manager:
        assert manager.all_steps() == [2] and manager.metrics(2) == {"m": 2}
