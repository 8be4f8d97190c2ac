"""The records of a checkpoint: _CHECKPOINT_METADATA and commit_success.txt, byte for byte as Python's json writes them."""

import json

import numpy as np
import pytest

import cairn.orbax as ocp

_TREE = {"a": np.arange(4)}
_CUSTOM = {
    "float": [1e16, 1e-7, 0.1, -0.0, 1e300, 5e-324],
    "unusual": [float("nan"), float("inf"), 2**70],
    "text": "é \ud800 \U0001f600 \x7f\n",
    "deep": json.loads("[" * 200 + "]" * 200),
    "empty": [{}, [], "", None, True],
}


def _record(path):
    return (path / "_CHECKPOINT_METADATA").read_text()


@pytest.mark.parametrize("custom", [None, {}, _CUSTOM], ids=["none", "empty", "unusual"])
@pytest.mark.parametrize("mode", ocp.options.AtomicityMode, ids=lambda mode: mode.name)
def test_the_record_is_what_json_writes(custom, mode, tmp_path, monkeypatch):
    path = tmp_path / "ckpt"
    options = ocp.options.AtomicityOptions(mode=mode)
    first = []

    save = ocp.StandardCheckpointHandler.save
    monkeypatch.setattr(
        ocp.StandardCheckpointHandler,
        "save",
        lambda self, directory, **given: (
            first.append(_record(directory)),
            save(self, directory, **given),
        ),
    )
    checkpointer = ocp.Checkpointer(ocp.StandardCheckpointHandler(), atomicity_options=options)
    checkpointer.save(path, args=ocp.args.StandardSave(_TREE), custom_metadata=custom)
    for text in (*first, _record(path)):
        assert text == json.dumps(json.loads(text))
        found = json.loads(text)
        assert list(found) == [
            "item_handlers",
            "metrics",
            "performance_metrics",
            "init_timestamp_nsecs",
            "commit_timestamp_nsecs",
            "custom_metadata",
        ]
        assert json.dumps(found["custom_metadata"]) == json.dumps(custom or {})
        assert found["metrics"] == found["performance_metrics"] == {}
    begun, found = json.loads(first[0]), json.loads(_record(path))
    assert begun["item_handlers"] is None and begun["commit_timestamp_nsecs"] is None
    assert (
        found["init_timestamp_nsecs"]
        == begun["init_timestamp_nsecs"]
        < found["commit_timestamp_nsecs"]
    )
    assert isinstance(found["item_handlers"], str)
    assert (
        path / "commit_success.txt"
    ).read_text() == f"Checkpoint commit was successful to {path}"


def test_the_commit_file_names_the_path_as_it_was_given(tmp_path):
    (tmp_path / "x").mkdir()
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "x" / ".." / "ckpt", _TREE)
    text = (tmp_path / "ckpt/commit_success.txt").read_text()
    assert text == f"Checkpoint commit was successful to {tmp_path}/x/../ckpt"
