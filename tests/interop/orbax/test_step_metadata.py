"""The metadata of steps and of single checkpoints: what Cairn and the real package read of checkpoints that either has written."""

import dataclasses
import json

import numpy as np
import orbax.checkpoint as ocp
import pytest

import cairn_cli
from test_manager import Cairn

HANDLER = "orbax.checkpoint._src.handlers."
CUSTOM = {"model": {"layers": [1, 2.5, None]}, "é": "x"}


@pytest.fixture
def cairn():
    one = Cairn()
    yield one
    one.close()


def theirs(metadata, items):
    handlers = metadata.item_handlers
    return {
        "init": metadata.init_timestamp_nsecs, "commit": metadata.commit_timestamp_nsecs,
        "handlers": {"": handlers} if isinstance(handlers, str) else dict(handlers), "items": sorted(items),
        "metrics": dict(metadata.metrics) or None, "custom": json.dumps(metadata.custom_metadata, ensure_ascii=False) if metadata.custom_metadata else "",
    }


def ours_of(answer):
    return answer | {"custom": json.dumps(json.loads(answer["custom"]), ensure_ascii=False) if answer["custom"] else ""}


@pytest.mark.covers("manager.CheckpointManager.metadata")
@pytest.mark.parametrize("metrics, custom", [(None, None), ({"m": 0.25}, None), ({"m": 1.0}, CUSTOM), (None, CUSTOM)])
def test_steps_that_orbax_wrote(scratch, cairn, metrics, custom):
    options = ocp.CheckpointManagerOptions(best_fn=lambda m: m["m"])
    items = {"state": ocp.args.PyTreeSave({"x": np.ones(3)}), "config": ocp.args.JsonSave({"a": 1})}
    with ocp.CheckpointManager(scratch / "run", options=options) as manager:
        manager.save(7, args=ocp.args.Composite(**items), metrics=metrics, custom_metadata=custom)
        manager.wait_until_finished()
        want = theirs(manager.metadata(7), [*items, *(["metrics"] if metrics else [])])
    cairn.do(op="open", root=str(scratch / "run"), options={"best": True})
    got = cairn.do(op="metadata", step=7)["result"]
    assert ours_of(got) == want
    assert 0 < got["init"] < got["commit"]
    assert cairn_cli.answers("items_tool", [{"op": "metadata", "path": str(scratch / "run" / "7")}]) == [got]
    assert cairn.do(op="metadata", step=8) == {"error": "not_found"}


@pytest.mark.covers("manager.CheckpointManager.metadata")
def test_steps_that_cairn_wrote(scratch, cairn):
    cairn.do(op="open", root=str(scratch / "run"), options={"best": True})
    cairn.do(op="save", step=3, metrics={"m": 0.5}, json="[1]")
    with ocp.CheckpointManager(scratch / "run", options=ocp.CheckpointManagerOptions(best_fn=lambda m: m["m"])) as manager:
        want = theirs(manager.metadata(3), ["state", "config", "metrics"])
    assert ours_of(cairn.do(op="metadata", step=3)["result"]) == want
    assert want["handlers"]["config"] == HANDLER + "json_checkpoint_handler.JsonCheckpointHandler" and want["metrics"] == {"m": 0.5}


@pytest.mark.parametrize("custom", [None, CUSTOM])
def test_a_checkpoint_of_its_own(scratch, custom):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "ckpt", args=ocp.args.PyTreeSave({"x": 1}), custom_metadata=custom)
        want = theirs(checkpointer.metadata(scratch / "ckpt"), [])
    [got] = cairn_cli.answers("items_tool", [{"op": "metadata", "path": str(scratch / "ckpt")}])
    assert ours_of(got) == want
    assert list(got["handlers"]) == [""]


def test_no_field_is_forgotten():
    """Those that the comparison leaves out: what items hold is read by their handlers, and performance metrics are never written."""
    known = {"item_handlers", "item_metadata", "metrics", "performance_metrics", "init_timestamp_nsecs", "commit_timestamp_nsecs", "custom_metadata"}
    assert {field.name for field in dataclasses.fields(ocp.metadata.StepMetadata)} == known


# What a damaged _CHECKPOINT_METADATA is to Orbax: as if there were none, or a ValueError.
DAMAGED = {"": None, "{": None, "null": None, "[]": ValueError, "3": ValueError, '"x"': ValueError, '{"init_timestamp_nsecs": "x"}': ValueError,
           '{"commit_timestamp_nsecs": [1]}': ValueError, '{"item_handlers": 3}': ValueError, '{"custom_metadata": [1]}': ValueError, '{"metrics": 3}': ValueError}


@pytest.mark.covers(
    "manager.CheckpointManager.metadata",
    note="Damaged metadata are `data_loss`. Orbax takes metadata that is not JSON for absent.",
)
@pytest.mark.parametrize("text", [*DAMAGED, "{}", '{"other": 1}'])
def test_damaged_metadata(scratch, text):
    path = scratch / "ckpt"
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave({"x": 1}))
        (path / "_CHECKPOINT_METADATA").write_text(text)
        [got] = cairn_cli.answers("items_tool", [{"op": "metadata", "path": str(path)}])
        if DAMAGED.get(text) is not None:
            with pytest.raises(DAMAGED[text]):
                checkpointer.metadata(path)
        else:
            empty = checkpointer.metadata(path)
            assert (empty.init_timestamp_nsecs, empty.commit_timestamp_nsecs, empty.metrics) == (None, None, {})
            assert empty.custom_metadata == ({"other": 1} if "other" in text else {})  # what it does not know
    if text in DAMAGED:
        assert got["code"] == "data_loss" and str(path / "_CHECKPOINT_METADATA") in got["error"], got
    else:
        assert (got["init"], got["commit"], got["metrics"], got["custom"]) == (None, None, None, "")
