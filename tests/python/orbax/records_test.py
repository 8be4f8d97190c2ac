"""The records of a checkpoint: _CHECKPOINT_METADATA and commit_success.txt, byte for byte as Python's json writes them."""

import json

import numpy as np
import pytest

import cairn.orbax as ocp
import orbax.checkpoint

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


@pytest.mark.parametrize("prefix", [None, "", "step", "a_1"])
@pytest.mark.parametrize("length", [None, 0, 1, 3])
def test_the_names_of_steps_are_those_of_orbax(prefix, length, tmp_path):
    given = {"step_prefix": prefix, "step_format_fixed_length": length}
    formats = [package.path.step.standard_name_format(**given) for package in (ocp, orbax.checkpoint)]
    numbers = [0, 7, 10, 99, 100, 1000, 12345, 2**62]
    names = [f"{start}{digits}" for start in ("", "_", "step_", "step", "a_1_", "__") for digits in [*map(str, numbers), "007", "00", "0000", "0100", "", "-1", "1 ", "\u0663", "1_0", "1.orbax-checkpoint-tmp"]]
    for name in dict.fromkeys(names):
        if name:
            (tmp_path / name).mkdir()
    (tmp_path / "5").write_text("")
    found, expected = ({(one.step, one.path.name) for one in each.find_all(tmp_path)} for each in formats)
    assert found == expected
    assert len(found) >= 3


def test_a_step_that_is_being_saved_in_place_is_no_step(tmp_path):
    options = ocp.options.AtomicityOptions(mode=ocp.options.AtomicityMode.COMMIT_FILE, allow_legacy_atomic_rename=True)
    with ocp.CheckpointManager(tmp_path, options=ocp.CheckpointManagerOptions(atomicity_options=options)) as manager:
        manager.save(1, args=ocp.args.StandardSave(_TREE))
        manager.wait_until_finished()
        (tmp_path / "1/commit_success.txt").unlink()
        (tmp_path / "2").mkdir()
        (tmp_path / "2/_CHECKPOINT_METADATA").write_text('{"item_handlers": null, "init_timestamp_nsecs": 1, "commit_timestamp_nsecs": null}')
        manager.reload()
        assert manager.all_steps() == [1]
