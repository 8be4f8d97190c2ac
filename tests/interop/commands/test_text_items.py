"""Items of a manager's step that are one text, JSON and protocol buffers, in every command; and every other kind of item beside them."""

import json
import shutil

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from google.protobuf import struct_pb2
from orbax.checkpoint._src.handlers import proto_checkpoint_handler as proto

import cairn_cli

TREES = ["array", "jax_key", "numpy_key", "pytree", "standard"]
TEXTS = ["config", "message", "metrics"]


def message(**members):
    made = struct_pb2.Struct()
    made.update(members)
    return made


def save(root, **changed):
    """Step 1 with an item of every kind."""
    values = {"config": {"a": [1, 2], "b": None}, "message": message(layers=3, name="é\x1b[31m"), "loss": 0.5} | changed
    with ocp.CheckpointManager(root, options=ocp.CheckpointManagerOptions(best_fn=lambda metrics: metrics["loss"])) as manager:
        manager.save(1, metrics={"loss": values["loss"]}, args=ocp.args.Composite(
            pytree=ocp.args.PyTreeSave({"w": np.arange(6.0), "text": "adam"}), standard=ocp.args.StandardSave({"a": np.ones(2)}), array=ocp.args.ArraySave(np.arange(5)),
            jax_key=ocp.args.JaxRandomKeySave(jax.random.key(3)), numpy_key=ocp.args.NumpyRandomKeySave(np.random.RandomState(5).get_state()),
            config=ocp.args.JsonSave(values["config"]), message=proto.ProtoSaveArgs(values["message"])))
    return root / "1"


@pytest.fixture(scope="module")
def steps(module_scratch):
    """A step, and one whose texts differ."""
    return save(module_scratch / "a"), save(module_scratch / "b", config={"b": None, "a": [1, 3]}, message=message(layers=4), loss=0.25)


def restored(path):
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
        return checkpointer.restore(path, ocp.args.Composite(config=ocp.args.JsonRestore(), message=proto.ProtoRestoreArgs(struct_pb2.Struct)))


def test_cat_shows_the_texts(steps):
    from google.protobuf import text_format

    step, _ = steps
    for way in ([step, "message"], [step, "--item", "message"], [step, "message/"], [step, "message", "--raw"]):
        text = cairn_cli.run("cat", *way).stdout
        assert text == (step / "message" / "proto.pbtxt").read_bytes()
        assert text_format.Parse(text.decode(), struct_pb2.Struct()) == restored(step).message
    assert json.loads(cairn_cli.run("cat", step, "config").stdout) == restored(step).config
    done = cairn_cli.run("cat", step, "message", "--slice", "0", status=cairn_cli.USAGE)
    assert b"a text item has no slices" in done.stderr


def test_every_item_is_shown(steps):
    step, _ = steps
    info = json.loads(cairn_cli.run("info", "--json", step).stdout)
    assert info["items"] == sorted(TREES + TEXTS)
    assert {entry["item"] for entry in cairn_cli.ls(step)} == set(TREES)


def test_a_step_without_arrays_is_not_listed_as_nothing(scratch):
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "ckpt", ocp.args.Composite(config=ocp.args.JsonSave({}), message=proto.ProtoSaveArgs(message(a=1))))
    done = cairn_cli.run("ls", scratch / "ckpt")
    assert done.stdout == b"" and b"there are no arrays; the items are 'config', 'message'" in done.stderr
    assert differences(scratch / "ckpt", scratch / "ckpt", status=cairn_cli.GOOD)[1]["same"] == 2


def differences(*args, status):
    report = json.loads(cairn_cli.run("diff", *args, "--json", status=status).stdout)
    return {(leaf["item"], leaf["state"]) for leaf in report["leaves"] if leaf["state"] != "same"}, report


def test_diff_compares_the_texts(steps, scratch):
    a, b = steps
    found, report = differences(a, b, status=cairn_cli.NO)
    assert found == {(name, "different") for name in TEXTS}
    config = next(leaf for leaf in report["leaves"] if leaf["item"] == "config")
    assert config["differs"] == ["values"] and json.loads(config["a"]["text"]) == restored(a).config and json.loads(config["b"]["text"]) == restored(b).config
    assert differences(a, b, "--exclude", "config", "--exclude", "m*", status=cairn_cli.GOOD)[0] == set()
    assert differences(a, b, "config", status=cairn_cli.NO)[0] == {("config", "different")}
    assert differences(a, b, "--item", "pytree", status=cairn_cli.GOOD)[0] == set()
    # The order of the members of a dict is not a difference, and white space is not either.
    shutil.copytree(a, scratch / "c")
    (scratch / "c" / "config" / "metadata").write_text('{"b": null,\n "a": [1, 2]}')
    assert differences(a, scratch / "c", status=cairn_cli.GOOD)[0] == set()
    shutil.rmtree(scratch / "c" / "message")
    done = cairn_cli.run("diff", a, scratch / "c", status=cairn_cli.IO)
    assert b"item 'message' is recorded, but there is no folder of that name" in done.stderr
    for one, other in ((a, scratch / "c"), (scratch / "c", a)):
        done = cairn_cli.run("diff", one, other, "--allow-missing", "--json", status=cairn_cli.NO)
        assert b"'message'" in done.stderr


def test_a_damaged_text_is_not_equal(steps, scratch):
    step, _ = steps
    shutil.copytree(step, scratch / "damaged")
    (scratch / "damaged" / "config" / "metadata").write_text('{"a": [1,')
    found, report = differences(step, scratch / "damaged", status=cairn_cli.IO)
    assert found == {("config", "unreadable")} and "is not JSON" in report["leaves"][0]["b"]["error"]
    assert not cairn_cli.verify(scratch / "damaged", status=cairn_cli.NO)["ok"]


def test_other_formats_have_no_texts(steps, scratch):
    """They are named when they are left out, and are no difference later."""
    step, _ = steps
    report = json.loads(cairn_cli.run("convert", step, scratch / "all.msgpack", "--json").stdout)
    assert [entry["item"] for entry in report["left_out"]] == TEXTS
    for a, b in ((step, scratch / "all.msgpack"), (scratch / "all.msgpack", step)):
        found, report = differences(a, b, status=cairn_cli.GOOD)
        assert found == set() and report["same"] == len(cairn_cli.ls(step))
    cairn_cli.run("convert", step, scratch / "part.npz", "--include", "pytree/w")
    assert differences(step, scratch / "part.npz", "pytree/w", status=cairn_cli.GOOD)[1]["same"] == 1


@pytest.mark.parametrize("target_format", ["orbax", "orbax-zarr3", "orbax-files"])
def test_orbax_restores_every_item_of_a_conversion(steps, scratch, target_format):
    step, _ = steps
    report = json.loads(cairn_cli.run("convert", step, scratch / "new", "--to", target_format, "--json").stdout)
    assert report["items"] == sorted(TREES + TEXTS) and report["left_out"] == []
    assert restored(scratch / "new").message == restored(step).message
    assert restored(scratch / "new").config == restored(step).config
    assert differences(step, scratch / "new", status=cairn_cli.GOOD)[0] == set()
