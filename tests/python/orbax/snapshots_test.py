"""Snapshots of the steps that a program waits for: the same with both packages."""

import os
import pathlib
import shutil
import threading

import numpy as np
import pytest

from cairn import orbax
from cairn.orbax._impl.steps import snapshots


def saved(ocp, run, *steps):
    with ocp.CheckpointManager(run) as manager:
        for step in steps:
            manager.save(step, args=ocp.args.StandardSave({"a": np.full(3, step)}))
    return run


def files_below(folder):
    folder = pathlib.Path(folder)
    return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_a_snapshot_outlives_its_step(ocp, tmp_path):
    run = saved(ocp, tmp_path / "run", 1, 2)
    before = files_below(run / "2")
    utils = ocp.checkpoint_utils
    with utils.wait_for_new_checkpoint(run, timeout=1) as step:
        snapshot = utils.get_snapshot_dir_from_step_dir(run / str(step))
        assert snapshot == run / "_SNAPSHOTS/2"
        shutil.rmtree(run / "2")
        assert files_below(snapshot) == before
        with ocp.StandardCheckpointer() as checkpointer:
            assert checkpointer.restore(snapshot / "default")["a"].tolist() == [2, 2, 2]
        with ocp.CheckpointManager(run) as manager:
            assert manager.all_steps() == [1]
    assert not snapshot.exists()


def test_they_are_where_the_caller_wants(ocp, tmp_path):
    run = saved(ocp, tmp_path / "run", 1)
    own = tmp_path / "above/own"
    utils = ocp.checkpoint_utils
    for step in utils.checkpoints_iterator(run, timeout=0, snapshot_dir=own):
        assert utils.get_snapshot_dir_from_step_dir(run / str(step), own) == own / "1"
        assert files_below(own / "1") == files_below(run / "1")
    assert list(own.iterdir()) == [] and not (run / "_SNAPSHOTS").exists()


def test_one_that_is_there_is_used(ocp, tmp_path):
    run = saved(ocp, tmp_path / "run", 1)
    (run / "_SNAPSHOTS/1").mkdir(parents=True)
    with ocp.checkpoint_utils.wait_for_new_checkpoint(run, timeout=1) as step:
        assert step == 1 and not list((run / "_SNAPSHOTS/1").iterdir())
    assert not (run / "_SNAPSHOTS/1").exists()


def test_a_directory_that_cannot_be_made(ocp, tmp_path):
    run = saved(ocp, tmp_path / "run", 1)
    (tmp_path / "file").touch()
    wait = ocp.checkpoint_utils.wait_for_new_checkpoint
    with (
        pytest.raises(ValueError, match="snapshot"),
        wait(run, timeout=1, snapshot_dir=tmp_path / "file/below"),
    ):
        pass


@pytest.mark.parametrize("ignore", [True, False])
def test_one_that_somebody_removes(ocp, tmp_path, ignore):
    run = saved(ocp, tmp_path / "run", 1)
    wait = ocp.checkpoint_utils.wait_for_new_checkpoint

    def look():
        with wait(run, timeout=1, ignore_snapshot_errors=ignore):
            shutil.rmtree(run / "_SNAPSHOTS/1")

    if ignore:
        look()
        return
    with pytest.raises(FileNotFoundError):
        look()


def test_a_snapshot_takes_no_room(tmp_path):
    run = saved(orbax, tmp_path / "run", 1)
    (run / "_SNAPSHOTS/1.cairn-tmp/left").mkdir(parents=True)  # by one that was killed
    with orbax.checkpoint_utils.wait_for_new_checkpoint(run, timeout=1):
        assert [p.name for p in (run / "_SNAPSHOTS").iterdir()] == ["1"]
        for path in (run / "1").rglob("*"):
            copy = run / "_SNAPSHOTS" / path.relative_to(run)
            assert path.is_dir() or os.path.samefile(path, copy)


def test_files_that_cannot_be_linked_are_copied(tmp_path):
    run = saved(orbax, tmp_path / "run", 1)
    elsewhere = f"/dev/shm/cairn-snapshots-{os.getpid()}"  # another file system
    try:
        with orbax.checkpoint_utils.wait_for_new_checkpoint(run, snapshot_dir=elsewhere):
            copy = os.path.join(elsewhere, "1/_CHECKPOINT_METADATA")
            assert not os.path.samefile(copy, run / "1/_CHECKPOINT_METADATA")
            with open(copy, "rb") as file:
                assert file.read() == (run / "1/_CHECKPOINT_METADATA").read_bytes()
    finally:
        shutil.rmtree(elsewhere)


def test_what_there_is_not(tmp_path):
    with (
        pytest.raises(NotImplementedError, match="set_immutable"),
        orbax.checkpoint_utils.wait_for_new_checkpoint(tmp_path, timeout=0, set_immutable=True),
    ):
        pass


def test_a_foreign_directory_is_not_removed(tmp_path):
    run = saved(orbax, tmp_path / "run", 1)
    (run / "_SNAPSHOTS/1").mkdir(parents=True)
    (run / "_SNAPSHOTS/1/results.csv").write_text("precious")
    with (
        pytest.raises(FileExistsError, match="without the files of a checkpoint"),
        orbax.checkpoint_utils.wait_for_new_checkpoint(run, timeout=1),
    ):
        pass
    assert (run / "_SNAPSHOTS/1/results.csv").read_text() == "precious"


def test_readers_at_the_same_time(tmp_path):
    run = saved(orbax, tmp_path / "run", 1)
    wanted = files_below(run / "1")
    barrier = threading.Barrier(8)
    made = []

    def read():
        barrier.wait()
        made.append(snapshots._make(run / "1", run / "_SNAPSHOTS/1"))

    threads = [threading.Thread(target=read) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == [False] * 7 + [True]
    assert files_below(run / "_SNAPSHOTS/1") == wanted
    assert [p.name for p in (run / "_SNAPSHOTS").iterdir()] == ["1"]
