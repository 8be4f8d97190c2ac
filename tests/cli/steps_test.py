"""`cairn steps` and `cairn prune` on the directory of a real CheckpointManager."""

import json
import os
import shutil
import subprocess
import time

import numpy as np
import orbax.checkpoint as ocp
import pytest

from command import CAIRN, FAILURE, ROOT, USAGE, bad, good, run

DEMO = ROOT / "tests" / "golden" / "orbax" / "demo"
LOSSES = {1: 0.5, 2: 0.25, 3: 0.75, 4: 0.5, 5: 1.0}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Five steps of Orbax's manager, the third without metrics."""
    root = tmp_path_factory.mktemp("steps") / "run"
    options = ocp.CheckpointManagerOptions(best_fn=lambda m: m["loss"], enable_async_checkpointing=False)
    with ocp.CheckpointManager(root, options=options, item_names=("params", "config")) as manager:
        for step, loss in LOSSES.items():
            args = ocp.args.Composite(params=ocp.args.PyTreeSave({"w": np.full(100, step)}), config=ocp.args.JsonSave({"n": step}))
            manager.save(step, args=args, metrics=None if step == 3 else {"loss": loss, "note": "x"})
    return root


@pytest.fixture
def root(written, tmp_path):
    return shutil.copytree(written, tmp_path / "run")


def steps(path):
    return [record["step"] for record in json.loads(good("steps", path, "--json"))]


def size_of(folder):
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def test_steps(root):
    before = time.time_ns()
    records = json.loads(good("steps", root, "--json"))
    assert [r["step"] for r in records] == list(LOSSES)
    for record in records:
        folder = root / str(record["step"])
        metadata = json.loads((folder / "_CHECKPOINT_METADATA").read_text())
        assert record["path"] == str(folder) and record["committed_at"] == metadata["commit_timestamp_nsecs"] < before
        assert record["nbytes"] == record["unique_nbytes"] == size_of(folder)
        assert record["items"] == sorted(["config", "params"] + ["metrics"] * (record["step"] != 3))
        assert record["metrics"] == (None if record["step"] == 3 else {"loss": LOSSES[record["step"]]})
        assert (record["complete"], record["reason"]) == (True, None)
    lines = good("steps", root).splitlines()
    assert lines[0].split() == ["step", "committed", "(UTC)", "size", "unique", "metrics", "items"]
    assert "loss 0.25" in lines[2] and "config, metrics, params" in lines[2]


def test_unfinished_and_foreign_folders(root):
    (root / "5").rename(root / "5.orbax-checkpoint-tmp")
    (root / "metadata").mkdir()
    (root / "6").mkdir()
    (root / "7").write_text("a file")
    (root / "4" / "commit_success.txt").unlink()
    shutil.rmtree(root / "4" / "params")
    found = {r["step"]: r for r in json.loads(good("steps", root, "--json"))}
    assert list(found) == [1, 2, 3, 4, 5, 6]
    assert not found[5]["complete"] and "interrupted" in found[5]["reason"]
    assert not found[6]["complete"] and found[6]["reason"]
    assert found[1]["complete"]
    assert "interrupted" in good("steps", root)


def test_files_with_several_names_count_once(root):
    """Two steps share a file: each has it, and the removal of one does not free it."""
    file = next((root / "1" / "params" / "d").iterdir())
    os.link(file, root / "2" / "params" / "d" / "shared")
    os.link(file, root / "2" / "params" / "d" / "again")
    found = {r["step"]: r for r in json.loads(good("steps", root, "--json"))}
    shared = file.stat().st_size
    for step, names in ((1, 1), (2, 2)):
        assert found[step]["nbytes"] == size_of(root / str(step)) - (names - 1) * shared
        assert found[step]["unique_nbytes"] == found[step]["nbytes"] - shared


def test_what_is_no_directory_of_steps(tmp_path):
    assert "no such directory" in bad(FAILURE, "steps", tmp_path / "no")
    assert "one checkpoint" in bad(USAGE, "steps", DEMO / "100")
    (tmp_path / "file").write_text("x")
    assert "is a file" in bad(USAGE, "steps", tmp_path / "file")
    assert good("steps", tmp_path) == "no steps\n"
    assert json.loads(good("steps", tmp_path, "--json")) == []


def test_watch(root):
    process = subprocess.Popen([CAIRN, "steps", root, "--watch"], stdout=subprocess.PIPE, text=True)
    seen = [process.stdout.readline() for _ in range(6)]
    assert seen[-1].split()[0] == "5"
    shutil.copytree(root / "5", root / "6.orbax-checkpoint-tmp")
    line = process.stdout.readline()
    while not line.lstrip().startswith("6 "):
        line = process.stdout.readline()
    assert "interrupted" in line
    (root / "6.orbax-checkpoint-tmp").rename(root / "6")
    while "config, metrics, params" not in line:
        line = process.stdout.readline()
    assert line.lstrip().startswith("6 ")
    process.kill()
    process.wait()


@pytest.mark.parametrize("options, kept", [
    (["--keep-last", 2], [4, 5]),
    (["--keep-last", 0], [5]),
    (["--keep-last", 9], [1, 2, 3, 4, 5]),
    (["--keep-every", 2], [2, 4, 5]),
    (["--best", "loss"], [5]),
    (["--best", "loss", "--best-mode", "min"], [2, 5]),
    (["--keep-last", 1, "--keep-every", 3, "--best", "loss", "--best-mode", "min"], [2, 3, 5]),
])
def test_prune(root, options, kept):
    planned = json.loads(good("prune", root, *options, "--dry-run", "--json"))
    assert steps(root) == list(LOSSES)
    sizes = {step: size_of(root / str(step)) for step in LOSSES}
    done = json.loads(good("prune", root, *options, "--json"))
    assert done == planned
    assert [r["step"] for r in done if r["outcome"] == "kept"] == kept == steps(root)
    assert all((r["why"] is None) == (r["outcome"] == "removed") and r["nbytes"] == sizes[r["step"]] for r in done)
    with ocp.CheckpointManager(root, item_names=("params",)) as manager:
        assert list(manager.all_steps()) == kept
        restored = manager.restore(kept[-1], args=ocp.args.Composite(params=ocp.args.PyTreeRestore()))
        assert (restored["params"]["w"] == kept[-1]).all()


def test_nested_metrics(tmp_path):
    """Orbax takes trees of metrics; the path of a number is its name."""
    losses = {1: 0.5, 2: 0.25, 3: 0.75}
    options = ocp.CheckpointManagerOptions(best_fn=lambda m: m["eval"]["loss"], best_mode="min", enable_async_checkpointing=False)
    with ocp.CheckpointManager(tmp_path / "run", options=options) as manager:
        for step, loss in losses.items():
            manager.save(step, args=ocp.args.PyTreeSave({"x": step}), metrics={"eval": {"loss": loss, "all": [loss, 1.0]}, "note": "x"})
        best = manager.best_step()
    found = {r["step"]: r["metrics"] for r in json.loads(good("steps", tmp_path / "run", "--json"))}
    assert found == {step: {"eval.loss": loss, "eval.all.0": loss, "eval.all.1": 1.0} for step, loss in losses.items()}
    assert "eval.loss 0.25" in good("steps", tmp_path / "run")
    good("prune", tmp_path / "run", "--best", "eval.loss", "--best-mode", "min")
    assert steps(tmp_path / "run") == [best, 3] == [2, 3]


def test_prune_says_what_it_does(root):
    text = good("prune", root, "--keep-last", 1, "--best", "loss", "--best-mode", "min", "--dry-run")
    assert "would remove 1 (" in text and "kept         2 (" in text and "the best by 'loss'" in text and "3 steps, " in text
    assert "removed   1 (" in good("prune", root, "--keep-last", 1)
    assert steps(root) == [5]


def test_prune_removes_nothing_foreign(root):
    (root / "1" / "notes.txt").write_text("mine")
    (root / "2" / "link").symlink_to(root / "5")
    (root / "5").rename(root / "5.orbax-checkpoint-tmp")
    for more in (["--dry-run"], []):
        done = run("prune", root, "--keep-last", 1, "--json", *more)
        assert done.returncode == FAILURE
        assert {r["step"]: r["outcome"] for r in json.loads(done.stdout)} == {1: "refused", 2: "refused", 3: "removed", 4: "kept", 5: "kept"}
    assert (root / "1" / "notes.txt").read_text() == "mine" and steps(root) == [1, 2, 4, 5]


def test_prune_needs_a_rule(root):
    assert "which steps to keep" in bad(USAGE, "prune", root)
    assert "'accuracy'" in bad(FAILURE, "prune", root, "--best", "accuracy")
    bad(USAGE, "prune", root, "--keep-every", 0)
    bad(USAGE, "prune", root, "--keep-last", "-1")
    bad(USAGE, "prune", root, "--best", "loss", "--best-mode", "least")
    assert steps(root) == list(LOSSES)


@pytest.mark.parametrize("with_steps", [True, False])
def test_checkpoints_with_other_names_are_not_ignored_silently(root, with_steps):
    for name in ("ckpt-200", "epoch=100", "new\nline"):
        shutil.copytree(root / "1", root / name)
    (root / "logs").mkdir()
    if not with_steps:
        for step in LOSSES:
            shutil.rmtree(root / str(step))
    for options in ([], ["--json"]):
        done = run("steps", root, *options, text=True)
        assert done.returncode == 0
        assert done.stderr == "note: 3 checkpoints are not listed, because their names are not of the form 12 or step_12: ckpt-200, epoch=100, new\\x0aline\n"
    assert [record["step"] for record in json.loads(done.stdout)] == (list(LOSSES) if with_steps else [])
    for name in ("ckpt-200", "new\nline"):
        shutil.rmtree(root / name)
    assert run("steps", root, text=True).stderr == "note: one checkpoint is not listed, because its name is not of the form 12 or step_12: epoch=100\n"
    shutil.rmtree(root / "epoch=100")
    assert run("steps", root, text=True).stderr == ""


def test_steps_of_a_tensorflow_manager(tmp_path):
    import tensorflow as tf

    folder = tmp_path / "tf"
    checkpoint = tf.train.Checkpoint(v=tf.Variable([1.0, 2.0]))
    manager = tf.train.CheckpointManager(checkpoint, str(folder), max_to_keep=3)
    before = time.time_ns()
    for step in (7, 8, 12, 100):
        manager.save(step)
    records = json.loads(good("steps", folder, "--json"))
    assert [r["step"] for r in records] == [8, 12, 100]
    assert [r["path"] for r in records] == manager.checkpoints
    for record in records:
        files = list(folder.glob(f"ckpt-{record['step']}.*"))
        assert record["nbytes"] == record["unique_nbytes"] == sum(file.stat().st_size for file in files)
        assert before - 10**9 < record["committed_at"] < time.time_ns()
        assert (record["complete"], record["reason"], record["items"], record["metrics"]) == (True, None, [], None)
    (folder / "ckpt-12.data-00000-of-00001").unlink()
    (folder / "ckpt-8.index").write_text("<html>")
    (folder / "checkpoint").unlink()
    records = json.loads(good("steps", folder, "--json"))
    assert [(r["step"], r["complete"], r["committed_at"]) for r in records] == [(8, False, None), (12, False, None), (100, True, None)]
    assert "is a web page" in records[0]["reason"] and "ckpt-12.data-00000-of-00001" in records[1]["reason"]
    assert "which Cairn does not prune" in bad(USAGE, "prune", folder, "--keep-last", 1)
    assert (folder / "ckpt-100.index").exists()
