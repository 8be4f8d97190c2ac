"""Checkpoints that lack what they record: commands that look name it, others refuse it."""

import json
import os
import shutil

import numpy as np
import orbax.checkpoint as ocp
import pytest

from command import FAILURE, GOOD, bad, good, run


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A step of Orbax's manager with two trees and a JSON item."""
    root = tmp_path_factory.mktemp("missing") / "run"
    with ocp.CheckpointManager(root) as manager:
        items = {"params": ocp.args.StandardSave({"w": np.ones(2)}), "opt": ocp.args.StandardSave({"mu": np.ones(3)})}
        manager.save(1, args=ocp.args.Composite(config=ocp.args.JsonSave({"n": 1}), **items))
    return root / "1"


@pytest.fixture
def step(written, tmp_path):
    return shutil.copytree(written, tmp_path / "step")


@pytest.mark.parametrize("lost", ["opt", "opt/*"])
def test_an_item_is_missing(step, tmp_path, lost):
    if lost == "opt":
        shutil.rmtree(step / "opt")
    else:
        for entry in (step / "opt").iterdir():
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    for command in ("ls", "info", "tree", "stats", "du"):
        done = run(command, step)
        assert done.returncode == FAILURE and b"opt" in done.stderr and done.stdout, done
        allowed = run(command, step, "--allow-missing")
        assert (allowed.returncode, allowed.stdout, allowed.stderr) == (GOOD, done.stdout, done.stderr)
        good(command, step, "--item", "params")
    assert [leaf["item"] + "/" + leaf["name"] for leaf in json.loads(run("ls", "--json", step).stdout)] == ["params/w"]
    (part,) = json.loads(run("info", "--json", step).stdout)["missing"]
    assert part["item"] == "opt" and part["path"].startswith(str(step / "opt"))
    assert part["record"] == str(step / "_CHECKPOINT_METADATA") and "opt" in part["text"]
    for target in ("copy", "copy.npz"):
        assert "opt" in bad(FAILURE, "convert", step, tmp_path / target, *(["--to", "orbax"] if target == "copy" else []))
        assert not (tmp_path / target).exists()
    assert "opt" in bad(FAILURE, "reshard", step, tmp_path / "copy", "--chunk-bytes", "1KiB")
    assert "opt" in bad(FAILURE, "diff", step, step)
    assert "opt" in bad(FAILURE, "ls", step, "--item", "opt")


def test_the_rest_of_an_item_is_used_if_allowed(step, written, tmp_path):
    shutil.rmtree(step / "opt")
    done = run("convert", step, tmp_path / "copy.npz", "--allow-missing", "--json")
    assert done.returncode == GOOD and b"left out 'opt'" in done.stderr
    assert "opt" in [entry["item"] for entry in json.loads(done.stdout)["left_out"]]
    assert np.load(tmp_path / "copy.npz").files == ["params.w"]  # as if nothing were missing
    good("convert", step, tmp_path / "named.npz", "--item", "params")
    done = run("convert", step, tmp_path / "copy", "--to", "orbax", "--exclude", "opt")
    assert done.returncode == GOOD and sorted(json.loads(good("info", "--json", tmp_path / "copy"))["items"]) == ["config", "params"]
    report = json.loads(run("diff", "--json", "--allow-missing", written, step).stdout)
    assert (report["same"], report["only_in_a"]) == (2, 1) and report["missing_b"][0]["item"] == "opt"


def test_nothing_becomes_an_empty_checkpoint(step, tmp_path):
    shutil.rmtree(step / "opt")
    shutil.rmtree(step / "params")
    for options in ((), ("--allow-missing",)):
        assert "params" in bad(FAILURE, "convert", step, tmp_path / "copy.npz", *options)
        assert "params" in bad(FAILURE, "convert", step, tmp_path / "copy", "--to", "orbax", *options)
        assert run("diff", step, step, *options).returncode == FAILURE
    shutil.rmtree(step / "config")
    for command in ("ls", "info", "stats"):
        assert "params" in bad(FAILURE, command, step, "--allow-missing")


@pytest.mark.parametrize("lost", [("_METADATA",), ("_METADATA", "manifest.ocdbt"), ("_METADATA", "manifest.ocdbt", "d"), ("manifest.ocdbt",), ("d",)])
def test_one_tree_lacks_files(tmp_path, lost):
    path = tmp_path / "ckpt"
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave({"a": {"b": np.ones(3)}}))
    for name in lost:
        shutil.rmtree(path / name) if (path / name).is_dir() else os.remove(path / name)
    for command in ("ls", "info", "diff", "stats"):
        done = run(command, path, *([path] if command == "diff" else []))
        assert done.returncode == FAILURE and any(name in done.stderr.decode() for name in (*lost, "ocdbt")), done
    for target in ("copy.npz", "copy"):
        assert run("convert", path, tmp_path / target, *(["--to", "orbax"] if target == "copy" else [])).returncode == FAILURE
        assert not (tmp_path / target).exists()
    if lost == ("_METADATA",):  # the arrays are there
        done = run("convert", path, tmp_path / "rest.npz", "--allow-missing")
        assert done.returncode == GOOD and b"left out '_METADATA'" in done.stderr
        assert np.load(tmp_path / "rest.npz").files == ["a.b"]


def test_an_item_of_json_is_missing(step, tmp_path):
    (step / "config" / "metadata").unlink()
    assert b"config" in run("ls", step).stderr
    assert "config" in bad(FAILURE, "convert", step, tmp_path / "copy", "--to", "orbax")
