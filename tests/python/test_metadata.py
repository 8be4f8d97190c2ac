"""Metadata of the user: one rule for all doors, and where real Orbax finds it."""

import json
import warnings

import numpy as np
import orbax.checkpoint as ocp
import pytest

import cairn

TREE = {"a": np.ones(3)}


def save(path, **options):
    cairn.save(path, TREE, **options)


def save_async(path, **options):
    cairn.save_async(path, TREE, **options).wait()


def save_step(path, **options):
    with cairn.CheckpointManager(path) as manager:
        manager.save(0, TREE, **options)


DOORS = {"save": save, "save_async": save_async, "manager": save_step}


def orbax_metadata(path, door):
    """(of the checkpoint, of the tree) as Orbax returns them."""
    if door == "manager":
        registry = ocp.handlers.DefaultCheckpointHandlerRegistry()
        registry.add("default", ocp.args.PyTreeRestore, ocp.PyTreeCheckpointHandler())
        with ocp.CheckpointManager(path, handler_registry=registry) as manager:
            found = manager.metadata(0)
    else:
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
            found = checkpointer.metadata(path)
    return found.custom_metadata, found.item_metadata.custom_metadata


def info(path, door):
    found = cairn.open(path, item="default" if door == "manager" else None).info
    return found["custom_metadata"], found["item_metadata"]


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("item", [None, {"lr": 0.5}, [1, "a"], "text", 3])
def test_orbax_finds_it(tmp_path, door, item):
    DOORS[door](tmp_path / "c", metadata={"run": {"n": 1}}, item_metadata=item)
    assert orbax_metadata(tmp_path / "c", door) == ({"run": {"n": 1}}, item)
    name = "default" if door == "manager" else ""
    assert info(tmp_path / "c", door) == ({"run": {"n": 1}}, {} if item is None else {name: item})


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("value", [[1], "text", 3, True])
def test_of_a_checkpoint_it_is_a_dict(tmp_path, door, value):
    with pytest.raises(ValueError, match="must be a JSON object"):
        DOORS[door](tmp_path / "c", metadata=value)
    assert not (tmp_path / "c/0").exists() and not (tmp_path / "c/_METADATA").exists()


@pytest.mark.parametrize("door", DOORS)
def test_none(tmp_path, door):
    DOORS[door](tmp_path / "c", metadata={})
    assert info(tmp_path / "c", door) == (None, {})
    with pytest.raises(TypeError, match="JSON"):
        DOORS[door](tmp_path / "d", metadata={"a": object()})


def test_conversions_keep_both(tmp_path):
    whole = {"who": "checkpoint", "note": "text", "epoch": 3}
    tree = {"who": "tree", "of": "tree"}
    save(tmp_path / "c", metadata=whole, item_metadata=tree)
    cairn.convert(tmp_path / "c", tmp_path / "d", to="orbax")
    assert orbax_metadata(tmp_path / "d", "save") == (whole, tree)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = cairn.convert(tmp_path / "c", tmp_path / "e.safetensors")
    assert cairn.open(tmp_path / "e.safetensors").info["custom_metadata"] == {"who": "checkpoint", "note": "text", "of": "tree"}
    lost = json.dumps(report.data) if hasattr(report, "data") else str(report)
    assert "who of the tree" in lost and "epoch" in lost
    cairn.convert(tmp_path / "e.safetensors", tmp_path / "f", to="orbax")
    assert orbax_metadata(tmp_path / "f", "save") == ({"who": "checkpoint", "note": "text", "of": "tree"}, None)


@pytest.mark.parametrize("name", ["c.safetensors", "c.npz", "c.msgpack"])
def test_files_have_no_items(tmp_path, name):
    with pytest.raises(ValueError, match="has no items; give metadata"):
        save(tmp_path / name, item_metadata={"a": 1})
