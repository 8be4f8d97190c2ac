"""Damaged keys and types in `_METADATA`: what the real Orbax restores from them, and what `cairn` says about them."""

import ast
import json
import re
import shutil

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest

import cairn_cli

TREE = {"w": np.arange(4000.0), "l": [np.arange(3.0), np.ones(2)], "d": {"x": np.zeros(2), "y": np.ones(3)}, "m": [{"a": np.ones(1)}, {"a": np.ones(4)}], "n": None}

# Keys with everything that Python's repr treats in its own way. U+0378 is in no version of Unicode, and U+1FAE8 is in some.
ODD_KEYS = ["a", "it's", 'say "x"', "both ' and \"", "back\\slash", "tab\t", "line\n", "\x01", "\x7f", "\u00a0", "\u00e9", "\u6f22", "\u200b", "\u0378", "\U0001fae8", "(", "a,b", " ", 7, -1]


def key_change(leaf, level, member, value):
    def change(leaves):
        leaves[leaf]["key_metadata"][level][member] = value

    return change


def type_change(leaf, member, value):
    def change(leaves):
        leaves[leaf]["value_metadata"][member] = value

    return change


LIST_0, LIST_1, DICT_X = "('l', '0')", "('l', '1')", "('d', 'x')"

# The change; what Orbax does: the error, or the leaves that it loses; what Cairn says; whether Cairn opens the checkpoint.
DAMAGED = {
    "two first items": (key_change(LIST_0, 1, "key", "1"), AssertionError, "('l', '0') has the keys ['l'][1], and ('l', '1') has", False),
    "two last items": (key_change(LIST_1, 1, "key", "0"), {"l.1"}, "('l', '1') has the keys ['l'][0]", False),
    "two items below": (key_change("('m', '0', 'a')", 1, "key", "1"), AssertionError, "('m', '0', 'a') has the keys ['m'][1]['a']", False),
    "two keys of a dict": (key_change(DICT_X, 1, "key", "y"), {"d.x"}, "('d', 'x') has the keys ['d']['y']", False),
    "a leaf in place of a list": (key_change("('w',)", 0, "key", "l"), {"w"}, "('w',) has the keys ['l'], and", False),
    "a gap": (key_change(LIST_1, 1, "key", "2"), AssertionError, "'l' is a list with an item 2, but without an item 1", True),
    "a gap in front": (key_change(LIST_0, 1, "key", "2"), AssertionError, "'l' is a list with an item 1, but without an item 0", True),
    "a key in a list": (key_change(LIST_0, 1, "key_type", 2), TypeError, "'l' has items of a list (1) and keys of a dict ('0')", True),
    "a key behind a list": (key_change(LIST_1, 1, "key_type", 2), TypeError, "'l' has items of a list (0) and keys of a dict ('1')", True),
    "an array that is an empty node": (type_change("('w',)", "skip_deserialize", True), ValueError, "though its type is 'np.ndarray'", True),
}
# A type handler of the user's own might restore these.
UNKNOWN = {
    "an empty node": (type_change("('n',)", "value_type", "none"), "a custom leaf: its type 'none'"),
    "an array": (type_change("('w',)", "value_type", "np.ndarraz"), "only the array under this leaf's name was checked: its type 'np.ndarraz'"),
}


@pytest.fixture(scope="module")
def saved(module_scratch):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(module_scratch / "saved", args=ocp.args.PyTreeSave(TREE))
    return module_scratch / "saved"


@pytest.fixture
def changed(saved, scratch):
    def make(change):
        shutil.copytree(saved, scratch / "ckpt")
        file = scratch / "ckpt" / "_METADATA"
        metadata = json.loads(file.read_text())
        change(metadata["tree_metadata"])
        file.write_text(json.dumps(metadata))
        return scratch / "ckpt"

    return make


def restore(path, target=None):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        return checkpointer.restore(path, args=ocp.args.PyTreeRestore(item=target))


def names_of(tree):
    leaves = jax.tree_util.tree_flatten_with_path(tree, is_leaf=lambda x: x is None)[0]
    return {".".join(re.findall(r"\w+", jax.tree_util.keystr(path))) for path, _ in leaves}


@pytest.mark.parametrize("case", DAMAGED)
def test_damaged_keys(case, changed, scratch):
    change, restored, message, opens = DAMAGED[case]
    path = changed(change)
    if isinstance(restored, set):  # lost without a word, unless the caller knows the tree
        assert names_of(TREE) - names_of(restore(path)) == restored
        with pytest.raises(ValueError, match="structures do not match"):
            restore(path, jax.tree.map(lambda _: 0, TREE))
    else:
        with pytest.raises(restored):
            restore(path)
    report = cairn_cli.verify(path, status=cairn_cli.NO)
    found = [finding for finding in report["findings"] if finding["severity"] == "damage"]
    assert any(message in finding["message"] for finding in found), found
    assert any(str(path / "_METADATA") in (finding["file"] or "") + finding["message"] for finding in found), found
    if not opens:
        for command in (["ls", path], ["convert", path, scratch / "new.safetensors", "--skip-unsupported"]):
            error = cairn_cli.run(*command, status=cairn_cli.IO).stderr.decode()
            assert f"{path}/_METADATA: " in error and message in error, error
        assert not (scratch / "new.safetensors").exists()


@pytest.mark.parametrize("case", UNKNOWN)
def test_unknown_types(case, changed):
    change, message = UNKNOWN[case]
    path = changed(change)
    with pytest.raises(ValueError, match="Unrecognized typestr|TypeHandler lookup failed"):
        restore(path)
    (finding,) = cairn_cli.verify(path, status=cairn_cli.IO)["findings"]
    assert finding["severity"] == "not_checked" and finding["message"].startswith(message)


def test_a_name_that_is_damaged_alone(changed):
    """Orbax restores all values: it does not read the name. But nobody knows whether the name or the keys are right."""

    def rename(leaves):
        leaves["('x',)"] = leaves.pop("('w',)")

    path = changed(rename)
    assert names_of(restore(path)) == names_of(TREE)
    (finding,) = cairn_cli.verify(path, status=cairn_cli.NO)["findings"]
    assert finding["tensor"] == "w" and finding["message"].startswith("the entry ('x',) has the keys ['w']")


@pytest.mark.parametrize("use_ocdbt", [True, False], ids=["ocdbt", "files"])
def test_names_of_odd_keys_are_good(use_ocdbt, scratch):
    """Names that Orbax writes, and those that Cairn writes for the same keys."""
    keys = [key for key in ODD_KEYS if use_ocdbt or key != "back\\slash"]  # TensorStore takes it for a slash in a file's name
    tree = {"odd": {str(key): {"x": np.arange(2.0)} for key in keys}, "ints": {7: None, -1: np.ones(1)}, "one": [np.ones(1)], "none": {}}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=use_ocdbt)) as checkpointer:
        checkpointer.save(scratch / "odd", args=ocp.args.PyTreeSave(tree))
    assert cairn_cli.verify(scratch / "odd")["findings"] == []
    cairn_cli.run("convert", scratch / "odd", scratch / "new", "--to", "orbax" if use_ocdbt else "orbax-files")
    assert cairn_cli.verify(scratch / "new")["findings"] == []
    written = [json.loads((scratch / name / "_METADATA").read_text())["tree_metadata"] for name in ("odd", "new")]
    # which characters are escaped depends on the version of Python
    assert {ast.literal_eval(name) for name in written[0]} == {ast.literal_eval(name) for name in written[1]}


def test_a_partial_save_leaves_names_that_are_good(scratch):
    """The entry of the empty dict stays beside those of its members."""
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "ckpt", args=ocp.args.PyTreeSave({"d": {"x": np.ones(2)}, "w": np.ones(3)}))
    file = scratch / "ckpt" / "_METADATA"
    metadata = json.loads(file.read_text())
    metadata["tree_metadata"]["('d',)"] = {"key_metadata": [{"key": "d", "key_type": 2}], "value_metadata": {"value_type": "Dict", "skip_deserialize": True}}
    file.write_text(json.dumps(metadata))
    assert names_of(restore(scratch / "ckpt")) == {"d.x", "w"}
    assert cairn_cli.verify(scratch / "ckpt")["findings"] == []


@pytest.mark.parametrize("use_ocdbt", [True, False], ids=["ocdbt", "files"])
def test_a_shape_damaged_to_zero(use_ocdbt, scratch):
    """Neither Orbax nor TensorStore nor Cairn stores a chunk of an array without elements."""
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=use_ocdbt)) as checkpointer:
        with pytest.raises(ValueError, match="zero size"):
            checkpointer.save(scratch / "zero", args=ocp.args.PyTreeSave({"z": np.zeros((0, 3))}))
        checkpointer.save(scratch / "ckpt", args=ocp.args.PyTreeSave({"w": np.arange(4000.0)}))
    np.savez(scratch / "zero.npz", z=np.zeros((0, 3)))
    cairn_cli.run("convert", scratch / "zero.npz", scratch / "new", "--to", "orbax" if use_ocdbt else "orbax-files")
    assert cairn_cli.verify(scratch / "new")["findings"] == []
    if use_ocdbt:
        return
    described = scratch / "ckpt" / "w" / ".zarray"
    described.write_text(described.read_text().replace('"shape":[4000]', '"shape":[0]'))
    (finding,) = cairn_cli.verify(scratch / "ckpt", status=cairn_cli.NO)["findings"]
    assert finding["tensor"] == "w" and finding["file"] == str(scratch / "ckpt" / "w" / "0")
    assert finding["message"] == "chunk w/0 is stored, though the array has no elements: its shape is (0,)"
    # A bare array may have been resized.
    (finding,) = cairn_cli.verify(scratch / "ckpt" / "w")["findings"]
    assert finding["severity"] == "note" and "lies outside the array" in finding["message"]


def test_a_converted_list_that_lacks_an_item_is_a_dict(saved, scratch):
    """Orbax refuses lists with gaps."""
    cairn_cli.run("convert", saved, scratch / "new", "--to", "orbax", "--exclude", "l.0", "--exclude", "m.1.a")
    assert cairn_cli.verify(scratch / "new")["findings"] == []
    restored = restore(scratch / "new")
    assert list(restored["l"]) == ["1"] and isinstance(restored["m"], list)
    np.testing.assert_array_equal(restored["l"]["1"], TREE["l"][1])
    assert {leaf["name"] for leaf in cairn_cli.ls(scratch / "new")} == names_of(TREE) - {"l.0", "m.1.a"}
