"""cairn.prune, clean, compact and du: the command's results, and its refusals."""

import json
import os
import shutil

import numpy as np
import pytest
from permissions import folder_without_permission
from stored import (FAILURE, USAGE, command, contents, files, message, restore_with_orbax, save_run_with_orbax,
                    save_with_orbax, tree)

import cairn

ORPHAN = "0123456789abcdef" * 2  # named as the data files of a database
LOSSES = [0.5, 0.1, 0.4, 0.3, 0.2]


@pytest.fixture(scope="module")
def a_run(tmp_path_factory):
    return save_run_with_orbax(tmp_path_factory.mktemp("run") / "run", LOSSES)


@pytest.fixture
def run(a_run, tmp_path):
    return shutil.copytree(a_run, tmp_path / "run")


def outcomes(steps):
    return {one["step"]: one["outcome"] for one in steps}


PRUNES = {
    "last": ({"keep_last": 2}, ["--keep-last", "2"], [3, 4]),
    "none of the last": ({"keep_last": 0}, ["--keep-last", "0"], [4]),
    "every": ({"keep_every": 3}, ["--keep-every", "3"], [0, 3, 4]),
    "best": ({"best": "loss", "best_mode": "min"}, ["--best", "loss", "--best-mode", "min"], [1, 4]),
    "largest": ({"best": "loss"}, ["--best", "loss"], [0, 4]),
    "all": ({"keep_last": 1, "keep_every": 2, "best": "loss", "best_mode": "min"},
            ["--keep-last", "1", "--keep-every", "2", "--best", "loss", "--best-mode", "min"], [0, 1, 2, 4]),
}


@pytest.mark.parametrize("name", PRUNES)
def test_prune_removes_what_the_command_removes(run, tmp_path, name):
    options, arguments, kept = PRUNES[name]
    shutil.copytree(run, tmp_path / "other")
    before = files(run)
    planned = cairn.prune(run, dry_run=True, **options)
    assert files(run) == before
    done = cairn.prune(run, **options)
    shown = json.loads(command("prune", tmp_path / "other", *arguments, "--json")[0])
    for one in shown:
        one["path"] = one["path"].replace(str(tmp_path / "other"), str(run))
    assert planned == done == shown
    assert [step for step, outcome in outcomes(done).items() if outcome == "kept"] == kept
    assert [one["step"] for one in cairn.steps(run)] == kept and contents(run) == contents(tmp_path / "other")
    with cairn.CheckpointManager(run) as manager:
        assert manager.all_steps() == kept


def test_what_prune_keeps_and_refuses(run, tmp_path):
    """As the command: a step with a file of somebody else, a step that a link needs, one that is not complete."""
    (run / "0/notes.txt").write_text("mine")
    os.symlink("1", run / "best")
    os.remove(run / "4/default/_METADATA")
    shutil.copytree(run, tmp_path / "other", symlinks=True)
    done = cairn.prune(run, keep_last=1)
    shown = json.loads(command("prune", tmp_path / "other", "--keep-last", "1", "--json", status=FAILURE)[0])
    assert outcomes(done) == outcomes(shown) == {0: "refused", 1: "kept", 2: "removed", 3: "kept", 4: "kept"}
    assert [one["why"].replace(str(run), "") if one["why"] else None for one in done] == [
        one["why"].replace(str(tmp_path / "other"), "") if one["why"] else None for one in shown]
    assert "notes.txt" in done[0]["why"] and "best" in done[1]["why"] and done[4]["why"] == "not complete"
    assert sorted(os.listdir(run)) == ["0", "1", "3", "4", "best"] == sorted(os.listdir(tmp_path / "other"))


@pytest.mark.parametrize("options, arguments, kind, status", [
    ({"keep_every": 0}, ["--keep-every", "0"], ValueError, USAGE),
    ({"best": "accuracy"}, ["--best", "accuracy"], FileNotFoundError, FAILURE),
])
def test_refusals_of_prune_are_those_of_the_command(run, options, arguments, kind, status):
    before = files(run)
    with pytest.raises(kind) as error:
        cairn.prune(run, **options)
    assert str(error.value) == message("prune", run, *arguments, status=status)
    assert files(run) == before


def test_where_prune_does_nothing(run, tmp_path):
    save_with_orbax(tmp_path / "c")
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    before = files(tmp_path)
    for name, kind, status in (("c", ValueError, USAGE), ("file", ValueError, USAGE), ("absent", FileNotFoundError, FAILURE)):
        with pytest.raises(kind) as error:
            cairn.prune(tmp_path / name, keep_last=1)
        assert str(error.value) == message("prune", tmp_path / name, "--keep-last", "1", status=status)
    assert cairn.prune(tmp_path / "empty", keep_last=1) == json.loads(command("prune", tmp_path / "empty", "--keep-last", "1", "--json")[0])
    for options, words in (({}, "nothing says which steps to keep"), ({"keep_last": -1}, "keep_last: .* not -1"),
                           ({"keep_last": "1"}, "keep_last: .* not '1'"), ({"keep_last": 1, "best_mode": "mean"}, "best_mode: 'mean' is not one of"),
                           ({"best": 3}, "best: expected a str"), ({"keep_last": 1, "dry_run": "no"}, "dry_run: expected True or False")):
        with pytest.raises(ValueError, match=words):
            cairn.prune(run, **options)
    assert files(tmp_path) == before


def test_a_flag_of_numpy_and_a_path_of_another_type(run, tmp_path):
    assert cairn.prune(run, keep_last=1, dry_run=np.True_) == cairn.prune(run, keep_last=1, dry_run=True)
    assert [row["outcome"] for row in cairn.prune(run, keep_last=99, dry_run=np.bool_(False))] == ["kept"] * len(cairn.steps(run))
    for call in (lambda: cairn.prune(None, keep_last=1), lambda: cairn.clean(None), lambda: cairn.compact(None), lambda: cairn.steps(None),
                 lambda: cairn.convert(run, None), lambda: cairn.reshard(None, tmp_path / "new", chunk_bytes=8)):
        with pytest.raises(TypeError, match="^expected str, bytes or os.PathLike object, not NoneType$"):
            call()


def test_the_databases_of_processes_are_not_steps(tmp_path):
    """Orbax writes them below the checkpoint; a merged one needs them."""
    save_with_orbax(tmp_path / "c")
    for number in (1, 2):
        shutil.copytree(tmp_path / "c/ocdbt.process_0", tmp_path / f"c/ocdbt.process_{number}")
    before = files(tmp_path)
    for call in (lambda: cairn.prune(tmp_path / "c", keep_last=1), lambda: cairn.steps(tmp_path / "c")):
        with pytest.raises(ValueError, match="c: is one checkpoint, not a directory of steps"):
            call()
    assert message("steps", tmp_path / "c", status=USAGE) == f"{tmp_path}/c: is one checkpoint, not a directory of steps"
    assert files(tmp_path) == before


def test_prune_of_a_folder_that_may_not_be_changed(run):
    with folder_without_permission(run=run) as folder:
        before = files(folder)
        done = cairn.prune(folder / "run", keep_last=1)
        assert outcomes(done) == {0: "refused", 1: "refused", 2: "refused", 3: "refused", 4: "kept"}
        assert all("Permission denied" in one["why"] for one in done[:4]) and files(folder) == before


def leave_leftovers(folder):
    """What crashes of Orbax and of Cairn leave: a save that is unfinished, one that lacks only its name, and a foreign file."""
    save_with_orbax(folder / "c")
    save_with_orbax(folder / "named")
    (folder / "named").rename(folder / "named.orbax-checkpoint-tmp")
    unfinished = folder / "unfinished.orbax-checkpoint-tmp"
    shutil.copytree(folder / "c", unfinished)
    for name in ("manifest.ocdbt", "_CHECKPOINT_METADATA", "commit_success.txt"):
        (unfinished / name).unlink(missing_ok=True)
    foreign = folder / "foreign.orbax-checkpoint-tmp"
    foreign.mkdir()
    (foreign / "notes.txt").write_text("mine")


def test_clean_does_what_the_command_does(tmp_path):
    folder = tmp_path / "python"
    folder.mkdir()
    leave_leftovers(folder)
    shutil.copytree(folder, tmp_path / "command")
    before = files(folder)
    planned = cairn.clean(folder, dry_run=True)
    assert files(folder) == before
    done = cairn.clean(folder)
    shown = json.loads(command("clean", tmp_path / "command", "--json", status=FAILURE)[0])
    for one in shown:
        one["path"] = one["path"].replace(str(tmp_path / "command"), str(folder))
        one["why"] = one["why"].replace(str(tmp_path / "command"), str(folder))
    assert done == shown
    found = {os.path.basename(one["path"]): one["outcome"] for one in done}
    assert found == {os.path.basename(one["path"]): one["outcome"] for one in planned}
    assert found == {"named.orbax-checkpoint-tmp": "restored", "unfinished.orbax-checkpoint-tmp": "removed",
                     "foreign.orbax-checkpoint-tmp": "refused"}
    assert sorted(os.listdir(folder)) == ["c", "foreign.orbax-checkpoint-tmp", "named"] == sorted(os.listdir(tmp_path / "command"))
    assert (restore_with_orbax(folder / "named")["params"]["embedding"] == tree()["params"]["embedding"]).all()
    assert (folder / "foreign.orbax-checkpoint-tmp/notes.txt").read_text() == "mine"
    assert [one["outcome"] for one in cairn.clean(folder)] == ["refused"]


def test_where_clean_does_nothing(tmp_path):
    with pytest.raises(FileNotFoundError) as error:
        cairn.clean(tmp_path / "absent")
    assert str(error.value) == message("clean", tmp_path / "absent", status=FAILURE)
    with pytest.raises(ValueError, match="dry_run: expected True or False, not 'no'"):
        cairn.clean(tmp_path, dry_run="no")
    save_with_orbax(tmp_path / "c")
    before = files(tmp_path)
    assert cairn.clean(tmp_path) == cairn.clean(tmp_path / "c") == [] and files(tmp_path) == before


def test_clean_of_a_folder_that_may_not_be_changed(tmp_path):
    leave_leftovers(tmp_path)
    shutil.rmtree(tmp_path / "foreign.orbax-checkpoint-tmp")
    shutil.rmtree(tmp_path / "named.orbax-checkpoint-tmp")
    with folder_without_permission(run=tmp_path) as folder:
        before = files(folder)
        (one,) = cairn.clean(folder / "run")
        assert one["outcome"] == "refused" and "Permission denied" in one["why"] and files(folder) == before


def fragmented(path):
    """A checkpoint whose database has several versions and a file that nothing refers to."""
    import tensorstore as ts

    save_with_orbax(path)
    store = ts.KvStore.open({"driver": "ocdbt", "base": f"file://{path}/"}).result()
    chunk = store["params.dense.bias/0"]
    for _ in range(5):
        store["params.dense.bias/0"] = chunk
    (path / "d" / ORPHAN).write_bytes(b"x" * 100)
    return path


@pytest.mark.parametrize("remove_orphans", [False, True])
def test_compact_does_what_the_command_does(tmp_path, remove_orphans):
    source = fragmented(tmp_path / "python")
    shutil.copytree(source, tmp_path / "command")
    before = contents(source)
    (done,) = cairn.compact(source, remove_orphans=remove_orphans)
    (shown,) = json.loads(command("compact", tmp_path / "command", "--json", *["--orphans"][:remove_orphans])[0])
    # The names of the new files are random, and compressed with others: their sizes differ by a few bytes.
    size = {"path": "", "bytes_after": 0}
    assert done | size == shown | size and done["path"] == str(source) and abs(done["bytes_after"] - shown["bytes_after"]) < 100
    assert done["files_after"] < done["files_before"] and done["bytes_after"] < done["bytes_before"]
    # The databases of processes go, once their values are copied.
    kept = {name: value for name, value in before.items() if not name.startswith("ocdbt.process_")}
    assert contents(source) == contents(tmp_path / "command") == kept != before
    assert (source / "d" / ORPHAN).exists() == (not remove_orphans)
    assert (restore_with_orbax(source)["params"]["embedding"] == tree()["params"]["embedding"]).all()


def test_compact_of_a_step_and_of_an_item(run):
    (done,) = cairn.compact(run, step=2)
    assert done["path"] == str(run / "2/default")
    (latest,) = cairn.compact(run, item="default")
    assert latest["path"] == str(run / "4/default") and cairn.verify(run, step=4)


def test_refusals_of_compact_are_those_of_the_command(run, tmp_path):
    cairn.save(tmp_path / "folders", {"a": np.ones(3)}, use_ocdbt=False)
    cairn.save(tmp_path / "c.npz", {"a": np.ones(3)})
    before = files(tmp_path)
    for path, options, arguments, kind in (
        (tmp_path / "absent", {}, [], FileNotFoundError), (tmp_path / "c.npz", {}, [], ValueError), (tmp_path / "folders", {}, [], RuntimeError),
        (run, {"step": 99}, ["--step", "99"], FileNotFoundError), (run, {"item": "x"}, ["--item", "x"], FileNotFoundError)):
        with pytest.raises(kind) as error:
            cairn.compact(path, **options)
        assert str(error.value) == message("compact", path, *arguments, status=FAILURE)
    with pytest.raises(ValueError, match="remove_orphans: expected True or False, not 'no'"):
        cairn.compact(run, remove_orphans="no")
    with pytest.raises(ValueError, match="step: expected an int, not '1'"):
        cairn.compact(run, step="1")
    assert files(tmp_path) == before


def test_compact_leaves_a_damaged_database(tmp_path):
    source = fragmented(tmp_path / "c")
    for file in (source / "d").iterdir():
        data = bytearray(file.read_bytes())
        if file.name != ORPHAN:
            data[len(data) // 2] ^= 1
            file.write_bytes(data)
    before = files(tmp_path)
    with pytest.raises(cairn.CorruptionError):
        cairn.compact(source)
    assert files(tmp_path) == before


def test_compact_of_a_folder_that_may_not_be_changed(tmp_path):
    with folder_without_permission(c=fragmented(tmp_path / "c")) as folder:
        before = files(folder)
        with pytest.raises(OSError, match="Permission denied"):
            cairn.compact(folder / "c")
        assert files(folder) == before


@pytest.mark.parametrize("options, arguments", [
    ({}, []), ({"depth": 0}, ["--depth", "0"]), ({"depth": 1, "exclude": "params/dense/*"}, ["--depth", "1", "--exclude", "params/dense/*"]),
    ({"include": "params*"}, ["params*"]), ({"include": ["*kernel"], "exclude": ["layers*"]}, ["*kernel", "--exclude", "layers*"]),
])
def test_du_counts_what_the_command_counts(tmp_path, options, arguments):
    save_with_orbax(tmp_path / "c")
    shown = json.loads(command("du", tmp_path / "c", *arguments, "--json")[0])
    assert cairn.du(tmp_path / "c", **options) == cairn.du(cairn.open(tmp_path / "c"), **options) == shown
    assert shown["parameters"]["nbytes"] > 0


def test_du_of_a_step(run):
    shown = json.loads(command("du", run, "--step", "1", "--json")[0])
    assert cairn.du(cairn.open(run, step=1)) == shown and shown["modules"]["children"]


def test_refusals_of_du(tmp_path):
    save_with_orbax(tmp_path / "c")
    with pytest.raises(KeyError, match="absent"):
        cairn.du(tmp_path / "c", include="absent*")
    with pytest.raises(KeyError, match="no leaf"):
        cairn.du(tmp_path / "c", exclude="*")
    with pytest.raises(KeyError, match="empty list"):
        cairn.du(tmp_path / "c", include=[])
    for depth in (-1, "2", 1.5):
        with pytest.raises(ValueError, match="depth: expected an int that is not negative"):
            cairn.du(tmp_path / "c", depth=depth)
    with pytest.raises(FileNotFoundError) as error:
        cairn.du(tmp_path / "absent")
    assert str(error.value) == message("du", tmp_path / "absent", status=FAILURE)
