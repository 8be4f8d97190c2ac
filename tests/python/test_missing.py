"""Checkpoints that lack what they record: cairn.load, cairn.open and cairn.orbax."""

import contextlib
import logging
import os
import shutil
import warnings

import cairn
import cairn.orbax
import numpy as np
import orbax.checkpoint as real
import pytest
from same import assert_same

PARAMS, OPT = {"w": np.ones(2)}, {"mu": np.arange(3)}  # opt times the step


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of Orbax's manager: two steps with two trees and a JSON item each."""
    root = tmp_path_factory.mktemp("missing") / "run"
    with real.CheckpointManager(root) as manager:
        for step in (1, 2):
            opt = {"mu": OPT["mu"] * step}
            items = {"params": real.args.StandardSave(PARAMS), "opt": real.args.StandardSave(opt)}
            items["config"] = real.args.JsonSave({"n": step})
            manager.save(step, args=real.args.Composite(**items))
    return root


@pytest.fixture
def step(run, tmp_path):
    return shutil.copytree(run / "2", tmp_path / "step")


@contextlib.contextmanager
def silence():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def missing(opened):
    return [(part["item"], part["path"]) for part in opened.info["missing"]]


def test_a_complete_one(step):
    with silence():
        opened = cairn.open(step, allow_missing=True)
        assert opened.info["missing"] == []
        loaded = cairn.load(step, allow_missing=True)
    assert_same(loaded, {"params": PARAMS, "opt": {"mu": OPT["mu"] * 2}})


def test_an_item_is_missing(step):
    shutil.rmtree(step / "opt")
    with pytest.raises(cairn.CorruptionError, match="opt"):
        cairn.load(step)
    with pytest.warns(UserWarning, match="opt") as warned:
        loaded = cairn.load(step, allow_missing=True)
    assert len(warned) == 1 and warned[0].filename == __file__
    assert_same(loaded, {"params": PARAMS})
    with silence():
        assert_same(cairn.load(step, item="params"), PARAMS)
    for allowed in (False, True):
        with pytest.warns(UserWarning, match="opt") as warned:
            opened = cairn.open(step, allow_missing=allowed)
        assert len(warned) == 1 and warned[0].filename == __file__
        ((item, path),) = missing(opened)
        assert (item, path) == ("opt", os.fspath(step / "opt"))
        assert opened.info["missing"][0]["record"] == os.fspath(step / "_CHECKPOINT_METADATA")
        assert opened.info["missing"][0]["text"] in opened.info["warnings"][0]
        # A leaf is read, whatever is missing elsewhere.
        assert opened["params"]["w"].numpy().tolist() == [1, 1]
        if allowed:
            with silence():
                assert_same(cairn.load(opened), {"params": PARAMS})
        else:
            with pytest.raises(cairn.CorruptionError, match="opt"):
                cairn.load(opened)


def test_a_target_asks_for_what_is_missing(step):
    shutil.rmtree(step / "opt")
    with pytest.warns(UserWarning, match="opt"):
        rest = cairn.load(step, {"params": PARAMS}, partial=True, allow_missing=True)
    assert_same(rest, {"params": PARAMS})
    target = {"params": {"w": np.zeros(2)}, "opt": OPT}
    with pytest.warns(UserWarning, match="opt"), pytest.raises(ValueError, match=r"opt.*mu"):
        cairn.load(step, target, allow_missing=True)
    with pytest.warns(UserWarning, match="opt"):  # as for any leaf that is not stored
        rest = cairn.load(step, target, partial=True, allow_missing=True)
    assert_same(rest, {"params": PARAMS, "opt": OPT})


def test_the_file_that_lists_the_leaves_is_missing(tmp_path):
    cairn.save(tmp_path / "c", {"a": np.arange(3), "text": "x"})
    os.remove(tmp_path / "c" / "_METADATA")
    with pytest.warns(UserWarning, match="_METADATA"):
        opened = cairn.open(tmp_path / "c", allow_missing=True)
    assert missing(opened) == [(None, os.fspath(tmp_path / "c" / "_METADATA"))]
    assert_same(cairn.load(opened), {"a": np.arange(3)})


def test_nothing_is_left(step):
    for item in ("params", "opt", "config"):
        shutil.rmtree(step / item)
    for function in (cairn.load, cairn.open):
        with pytest.raises(cairn.CorruptionError, match="params"):
            function(step, allow_missing=True)


def test_the_newest_complete_step_is_opened(run, tmp_path):
    """allow_missing is about the checkpoint that is opened. It does not choose another one."""
    copy = shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(copy / "2" / "opt")
    for allowed in (False, True):
        with pytest.warns(UserWarning, match="2.*opt"):
            loaded = cairn.load(copy, allow_missing=allowed)
        assert_same(loaded["opt"], OPT)
    with pytest.raises(cairn.CorruptionError, match="opt"):
        cairn.load(copy, step=2)
    with pytest.warns(UserWarning, match="opt"):
        assert_same(cairn.load(copy, step=2, allow_missing=True), {"params": PARAMS})


@pytest.mark.parametrize("value", ["no", 1, None])
def test_it_is_a_flag(step, value):
    for function in (cairn.load, cairn.open):
        with pytest.raises((ValueError, TypeError), match="allow_missing|incompatible"):
            function(step, allow_missing=value)


def test_an_open_one_has_decided(step):
    with pytest.raises(ValueError, match="allow_missing and storage_options are for open"):
        cairn.load(cairn.open(step), allow_missing=True)


# ---- cairn.orbax: as Orbax, with a warning ----


@contextlib.contextmanager
def heard():
    """Warnings, and what the loggers of both packages say."""
    said = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())
    loggers = [logging.getLogger(name) for name in ("absl", "cairn.orbax")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            yield said
        said += [str(one.message) for one in warned]
    finally:
        for logger in loggers:
            logger.removeHandler(handler)


def about(said, *words):
    return [text for text in said if all(word in text for word in words)]


def test_a_checkpointer_restores_the_other_items(step):
    shutil.rmtree(step / "opt")
    results = []
    for ocp in (cairn.orbax, real):
        handlers = {
            "params": ocp.StandardCheckpointHandler(),
            "opt": ocp.StandardCheckpointHandler(),
        }
        handlers["config"] = ocp.JsonCheckpointHandler()
        checkpointer = ocp.Checkpointer(ocp.CompositeCheckpointHandler(**handlers))
        with heard() as said:
            restored = checkpointer.restore(step)
        results.append({item: restored[item] for item in restored if restored[item] is not None})
        assert len(about(said, "'opt'", "no folder")) == (1 if ocp is cairn.orbax else 0), said
    assert_same(*results)
    assert sorted(results[0]) == ["config", "params"]


def test_a_manager_counts_a_step_that_lacks_an_item(run, tmp_path):
    copy = shutil.copytree(run, tmp_path / "run")
    shutil.rmtree(copy / "2" / "opt")
    results = []
    for ocp in (cairn.orbax, real):
        with heard() as said, ocp.CheckpointManager(copy) as manager:
            args = ocp.args.Composite(
                params=ocp.args.StandardRestore(), config=ocp.args.JsonRestore()
            )
            found = manager.restore(2, args=args)
            results.append([manager.all_steps(), manager.latest_step(), dict(found.items())])
            with pytest.raises((KeyError, FileNotFoundError, ValueError), match="opt"):
                manager.restore(2, args=ocp.args.Composite(opt=ocp.args.StandardRestore()))
        expected = 1 if ocp is cairn.orbax else 0
        assert len(about(said, "the latest step", "not complete", "opt")) == expected, said
    assert_same(*results)
    assert results[0][:2] == [[1, 2], 2]


def test_complete_steps_come_without_a_warning(run):
    with heard() as said, cairn.orbax.CheckpointManager(run) as manager:
        args = cairn.orbax.args.Composite(params=cairn.orbax.args.StandardRestore())
        manager.restore(2, args=args)
    assert about(said, "complete") == about(said, "no folder") == []
