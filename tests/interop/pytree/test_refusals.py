"""What PyTreeCheckpointHandler refuses, beside Orbax's: the same trigger, and the gist of both messages."""

import functools
import json

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from etils import epath
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tree_json
from test_pytree_handler import outcome, run

FOLDERS = {"use_ocdbt": False}


def both(error, got, kind, theirs, code, *ours):
    """Orbax raised `kind` with these words; Cairn has this code and these words."""
    assert type(error) is kind and theirs in str(error), repr(error)
    assert got.get("code") == code, got
    for words in ours:
        assert words in got["error"], got


def saved(path, tree, **options):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree))
    return path


def restored(path, item=None, restore_args=None, partial=False, **options):
    """Orbax's tree and error, and Cairn's answer."""
    args = ocp.args.PyTreeRestore(item, restore_args=restore_args, partial_restore=partial)
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        tree, error = outcome(lambda: checkpointer.restore(path, args=args))
    job = {"op": "restore", "dir": str(path), "options": options, "partial": partial}
    job |= {"item": tree_json.to_json(item)} if item is not None else {}
    job |= {"restore_args": tree_json.to_json(restore_args)} if restore_args is not None else {}
    [got] = run([job])
    return tree, error, got


# ---- saving ----
@pytest.mark.covers(
    "type_handlers.ScalarHandler", "type_handlers.StringHandler",
    "pytree.PyTreeCheckpointHandler.save", "errors.leaf",
)
@pytest.mark.parametrize("tree, theirs, ours", [
    ({}, "Found empty item", "empty item"),
    ({"a": 1 + 2j}, "TypeHandler lookup failed", "no type handler is registered for the type complex"),
    ({"a": jax.ShapeDtypeStruct((2,), np.float32)}, "TypeHandler lookup failed", "no type handler is registered for the type ShapeDtypeStruct"),
    ({"a": b"x"}, 'Unsupported data type: "bytes8"', "a: bytes cannot be stored"),
    ({"a~b": "text"}, "requires '~' to be followed by '0' or '1'", "'~' must be followed by 0 or 1"),
], ids=["empty", "complex", "abstract", "bytes", "tilde"])
def test_trees_that_are_refused(scratch, tree, theirs, ours):
    _, error = outcome(lambda: saved(scratch / "theirs", tree))
    [got] = run([{"op": "save", "dir": str(scratch / "ours"), "item": tree_json.to_json(tree)}])
    both(error, got, ValueError, theirs, "invalid_argument", ours)


@pytest.mark.covers(
    "type_handlers.NumpyHandler",
    note="Arrays of strings or objects are `unimplemented`.",
)
@pytest.mark.covers("errors.leaf")
@pytest.mark.parametrize("array", [np.array(["text", "x"]), np.array([b"text"]), np.array([{}, 1], object)], ids=["str", "bytes", "object"])
def test_arrays_that_have_no_type(scratch, array):
    _, error = outcome(lambda: saved(scratch / "theirs", {"a": array}))
    [got] = run([{"op": "save", "dir": str(scratch / "ours"), "item": tree_json.to_json({"a": array})}])
    both(error, got, ValueError, "Unsupported data type", "unimplemented", "a: ")


@pytest.mark.covers("pytree.PyTreeCheckpointHandler.save")
def test_items_that_are_not_values(scratch):
    """Arguments in place of leaves, and the metadata of a stored tree."""
    path, handler = saved(scratch / "ckpt", {"a": np.arange(3)}), ocp.PyTreeCheckpointHandler()
    arguments, described = {"a": ocp.SaveArgs()}, handler.metadata(epath.Path(path))
    jobs = [{"op": "save", "dir": str(scratch / "ours0"), "item": tree_json.to_json(arguments)},
            {"op": "save", "dir": str(scratch / "ours1"), "item": tree_json.to_json({}), "item_metadata": str(path)}]
    for number, (item, words, got) in enumerate(zip((arguments, described), ("no type handler is registered for the type", "restore the tree first"), run(jobs))):
        _, error = outcome(lambda: saved(scratch / f"theirs{number}", item))
        assert isinstance(error, ValueError), repr(error)
        assert got["code"] == "invalid_argument" and words in got["error"], got


@pytest.mark.covers("pytree.PyTreeSaveArgs", "errors.custom_metadata")
def test_custom_metadata_that_is_not_json(scratch):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        _, error = outcome(lambda: checkpointer.save(scratch / "theirs", args=ocp.args.PyTreeSave({"a": 1}, custom_metadata={"x": object()})))
    [got] = run([{"op": "save", "dir": str(scratch / "ours"), "item": tree_json.to_json({"a": 1}), "custom_metadata": "{'x': 1}"}])
    assert isinstance(error, TypeError) and "JSON" in str(error), repr(error)
    assert got["code"] == "invalid_argument" and "JSON" in got["error"], got


@pytest.mark.covers("pytree.PyTreeCheckpointHandler")
def test_a_limit_that_sets_itself_needs_a_maximum(scratch):
    _, error = outcome(lambda: ocp.PyTreeCheckpointHandler(save_device_host_concurrent_gb="auto"))
    [got] = run([{"op": "save", "dir": str(scratch / "ours"), "options": {"save_device_host_concurrent_gb": "auto"}, "item": tree_json.to_json({"a": 1})}])
    both(error, got, ValueError, 'must be provided if save_device_host_concurrent_bytes is "auto"', "invalid_argument", "max_transfer_concurrent_gb")


@pytest.mark.covers(
    "type_handlers.PlaceholderHandler",
    note="A placeholder is never written; a `restore_type` gives it no value.",
)
def test_a_placeholder_has_no_value(scratch):
    path = saved(scratch / "ckpt", {"a": 1, "p": ...})
    want, error, got = restored(path)
    assert error is None and want == {"a": 1, "p": ...} and tree_json.normal(got["tree"]) == tree_json.normal(tree_json.to_json(want))
    _, error, got = restored(path, restore_args={"a": ocp.RestoreArgs(), "p": ocp.RestoreArgs(restore_type=int)})
    assert isinstance(error, (ValueError, FileNotFoundError)), repr(error)
    assert got["code"] == "not_found" and "p: a placeholder was saved here" in got["error"], got


@pytest.mark.covers("type_handlers.StringHandler")
def test_good_names_with_a_tilde(scratch):
    """`~0` and `~1` stand for other characters only where the string is looked up."""
    tree = {"a~0b": "x", "a~1b": "y", "c/d": "z"}
    saved(scratch / "theirs", tree)
    [done] = run([{"op": "save", "dir": str(scratch / "ours"), "item": tree_json.to_json(tree)}])
    assert done == {"done": True}
    assert (scratch / "ours" / "_strings.json").read_text() == (scratch / "theirs" / "_strings.json").read_text()
    want, error, got = restored(scratch / "ours")
    assert error is None and want == tree and tree_json.normal(got["tree"]) == tree_json.normal(tree_json.to_json(tree))


@pytest.mark.covers("pytree.PyTreeSaveArgs")
def test_save_args_of_other_leaves(scratch):
    args = {"a": ocp.SaveArgs(), "b": ocp.SaveArgs()}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        _, error = outcome(lambda: checkpointer.save(scratch / "theirs", args=ocp.args.PyTreeSave({"a": 1}, args)))
    [got] = run([{"op": "save", "dir": str(scratch / "ours"), "item": tree_json.to_json({"a": 1}), "save_args": tree_json.to_json(args)}])
    both(error, got, ValueError, "pytree structure error", "invalid_argument", "\n  b: ", "nothing in the tree")


@pytest.mark.covers(
    "pytree.PyTreeSaveArgs",
    note="A negative data file size is also an error without OCDBT.",
)
def test_a_negative_data_file_size(scratch):
    for use_ocdbt in (True, False):  # which Orbax looks at in databases alone
        options = {"use_ocdbt": use_ocdbt}
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
            args = ocp.args.PyTreeSave({"a": 1}, ocdbt_target_data_file_size=-1)
            _, error = outcome(functools.partial(checkpointer.save, scratch / f"theirs{use_ocdbt}", args=args))
        [got] = run([{"op": "save", "dir": str(scratch / f"ours{use_ocdbt}"), "options": options, "item": tree_json.to_json({"a": 1}), "ocdbt_target_data_file_size": -1}])
        assert (error is not None) == use_ocdbt and got["code"] == "invalid_argument"
        assert error is None or "must be >= 0" in str(error)
        assert "must not be negative" in got["error"]


@pytest.mark.covers(
    "pytree.PyTreeCheckpointHandler.save",
    note="Two leaves with one parameter name are an error. In Orbax the last one wins.",
)
@pytest.mark.covers("errors.same_name")
def test_two_leaves_of_one_name(scratch):
    """Orbax keeps the one that it happens to write last, under both names."""
    tree = {"a.b": 1, "a": {"b": 2}}
    tree_of_orbax, _, _ = restored(saved(scratch / "theirs", tree))
    assert tree_of_orbax in [{"a.b": value, "a": {"b": value}} for value in (1, 2)]
    [got] = run([{"op": "save", "dir": str(scratch / "ours"), "item": tree_json.to_json(tree)}])
    assert got["code"] == "invalid_argument" and "'a.b'" in got["error"]


# ---- places ----
@pytest.mark.covers("pytree.PyTreeCheckpointHandler.restore", "errors.missing")
@pytest.mark.covers(
    "pytree.PyTreeCheckpointHandler.finalize",
    note="`finalize` of a missing folder is `not_found`.",
)
def test_missing_folders(scratch):
    handler = ocp.PyTreeCheckpointHandler()
    missing = epath.Path(scratch / "none")
    kinds = {"restore": FileNotFoundError, "metadata": FileNotFoundError, "finalize": ValueError}
    for (op, kind), got in zip(kinds.items(), run([{"op": op, "dir": str(missing)} for op in kinds])):
        _, error = outcome(functools.partial(getattr(handler, op), missing))
        both(error, got, kind, str(missing), "not_found", str(missing), "no such folder")


@pytest.mark.covers("errors.file")
def test_the_path_of_a_file(scratch):
    """The handler takes it for a folder without a structure. A Checkpointer has errors of its own (in Cairn: pytree_errors_test)."""
    file = epath.Path(scratch / "file")
    file.write_text("x")
    handler = ocp.PyTreeCheckpointHandler()
    for op in ("restore", "metadata"):
        _, error = outcome(lambda: getattr(handler, op)(file))
        [got] = run([{"op": op, "dir": str(file)}])
        both(error, got, FileNotFoundError, str(file), "not_found", str(file))
    _, error = outcome(lambda: ocp.Checkpointer(handler).restore(file))
    assert isinstance(error, ValueError) and "Found incomplete checkpoint" in str(error), error
    _, error = outcome(lambda: ocp.Checkpointer(handler).metadata(file))
    assert isinstance(error, NotADirectoryError), error


@pytest.mark.covers("pytree.PyTreeCheckpointHandler.metadata")
def test_a_folder_without_metadata(scratch):
    handler = ocp.PyTreeCheckpointHandler()
    folder = epath.Path(scratch / "empty")
    folder.mkdir()
    [restore, metadata] = run([{"op": op, "dir": str(folder)} for op in ("restore", "metadata")])
    _, error = outcome(lambda: handler.restore(folder))
    both(error, restore, FileNotFoundError, "No structure could be identified", "not_found", "no structure could be identified")
    _, error = outcome(lambda: handler.metadata(folder))
    both(error, metadata, FileNotFoundError, "_METADATA", "not_found", "_METADATA")


@pytest.mark.covers("pytree.PyTreeCheckpointHandler.restore")
def test_an_empty_tree_of_metadata(scratch):
    path = saved(scratch / "ckpt", {"a": 1})
    (path / "_METADATA").write_text('{"tree_metadata": {}, "use_zarr3": false}')
    _, error, got = restored(path)
    both(error, got, ValueError, "empty", "invalid_argument", "tree is empty")


@pytest.mark.covers("pytree.PyTreeCheckpointHandler.restore")
def test_the_layout_is_that_of_the_files(scratch):
    """Whatever the handler's own options are."""
    tree = {"a": np.arange(6.0), "n": 3}
    for number, options in enumerate(({"use_ocdbt": False}, {"use_ocdbt": False, "use_zarr3": True}, {"use_zarr3": True})):
        path = saved(scratch / str(number), tree, **options)
        want, error, got = restored(path)
        assert error is None and tree_json.normal(got["tree"]) == tree_json.normal(tree_json.to_json(want))


# ---- targets and arguments ----
STORED = {"a": 7, "l": [7, 7]}


@pytest.mark.covers("pytree.PyTreeRestoreArgs", "errors.target")
@pytest.mark.parametrize("item, partial, kind, theirs, ours", [
    ({"a": 7}, False, ValueError, "partial_restore=True", ("\n  l: ", "partial_restore")),
    (STORED | {"x": 7}, False, ValueError, "partial_restore=True", ("\n  x: ", "partial_restore")),
    ({"l": [7]}, True, ValueError, "Length mismatch", ("\n  l: ", "a list of 2", "a list of 1")),
    ({"l": 7}, True, TypeError, "Type mismatch", ("\n  l: ", "a list of 2", "a leaf")),
    ({"a": {"b": 7}}, True, TypeError, "Type mismatch", ("\n  a: ", "a leaf", "a dict of 1")),
], ids=["less", "more", "shorter", "leaf", "dict"])
def test_targets_that_do_not_fit(scratch, item, partial, kind, theirs, ours):
    _, error, got = restored(saved(scratch / "ckpt", STORED), item, partial=partial)
    both(error, got, kind, theirs, "invalid_argument", *ours)


@pytest.mark.covers(
    "pytree.PyTreeRestoreArgs",
    note="`restore_args` may have a tuple where the tree has a list.",
)
def test_restore_args_of_another_structure(scratch):
    path = saved(scratch / "ckpt", STORED)
    _, error, got = restored(path, restore_args={"a": ocp.RestoreArgs()})
    both(error, got, ValueError, "pytree structure error", "invalid_argument", "\n  l: ", "nothing in the arguments")
    _, error, got = restored(path, {"a": 7}, {"x": ocp.RestoreArgs()}, partial=True)
    both(error, got, ValueError, "['a']", "invalid_argument", "'a'", "restore_args")


@pytest.mark.covers("type_handlers.ScalarHandler", "errors.restore_type")
@pytest.mark.covers(
    "type_handlers.RestoreArgs",
    note="A string cannot be restored as an array or a number, or the reverse (`not_found`).",
)
def test_leaves_restored_as_what_they_are_not(scratch):
    path = saved(scratch / "ckpt", {"n": np.arange(4), "s": 5, "t": "text"})
    cases = [("n", int, "not a scalar", "invalid_argument", "not a scalar"), ("n", str, "NOT_FOUND", "not_found", "no string of this name"),
             ("s", str, "NOT_FOUND", "not_found", "no string of this name"), ("t", int, "NOT_FOUND", "not_found", "no array of this name"),
             ("t", np.ndarray, "NOT_FOUND", "not_found", "no array of this name"), ("s", "quantized", "TypeHandler lookup failed", "invalid_argument", "'quantized'"),
             ("s", complex, "TypeHandler lookup failed", "invalid_argument", "the type complex"), ("n", jax.Array, "Sharding of jax.Array cannot be None", "invalid_argument", "cannot be None")]
    for leaf, restore_type, theirs, code, ours in cases:
        args = {name: ocp.RestoreArgs(restore_type=restore_type if name == leaf else None) for name in "nst"}
        _, error, got = restored(path, restore_args=args)
        both(error, got, ValueError, theirs, code, f"{leaf}: ", ours)


MESH = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
SPREAD = NamedSharding(MESH, PartitionSpec("x", "y"))


@pytest.mark.covers("errors.restore_args")
@pytest.mark.parametrize("args, theirs, ours", [
    ({"global_shape": (4, 8)}, "strict=False", ("stored with shape (8, 8)", "(4, 8)", "strict")),
    ({"global_shape": (64,), "strict": False, "sharding": NamedSharding(MESH, PartitionSpec())}, "Ranks do not match", ("ranks do not match", "(8, 8)", "(64,)")),
])
def test_shapes_that_do_not_fit(scratch, args, theirs, ours):
    path = saved(scratch / "ckpt", {"a": jax.device_put(np.arange(64.0).reshape(8, 8), SPREAD)})
    _, error, got = restored(path, restore_args={"a": ocp.ArrayRestoreArgs(**{"sharding": SPREAD} | args)})
    both(error, got, ValueError, theirs, "invalid_argument", "a: ", *ours)


# ---- stored shardings ----
@pytest.mark.covers("type_handlers.ArrayHandler", "errors.stored_sharding")
@pytest.mark.parametrize("change, kind, theirs, code, ours", [
    (None, ValueError, "Sharding of jax.Array cannot be None", "invalid_argument", "none is stored"),
    (("YQ==", "Yg=="), ValueError, "NOT_FOUND", "invalid_argument", "no sharding of this array"),
    (("NamedSharding", "PositionalSharding"), ValueError, "should be specified, concrete", "invalid_argument", "give a concrete sharding"),
    (("NamedSharding", "FutureSharding"), NotImplementedError, "FutureSharding", "unimplemented", "FutureSharding"),
], ids=["no file", "not of this leaf", "positional", "unknown"])
def test_stored_shardings_that_cannot_be_used(scratch, change, kind, theirs, code, ours):
    path = saved(scratch / "ckpt", {"a": jax.device_put(np.arange(64.0).reshape(8, 8), SPREAD)})
    file = path / "_sharding"
    if change is None:
        file.unlink()
    else:
        assert change[0] in file.read_text()
        file.write_text(file.read_text().replace(*change))
    _, error, got = restored(path)
    both(error, got, kind, theirs, code, "a: ", ours)


# ---- chunks that are missing ----
@pytest.mark.covers("type_handlers.ParamInfo", "type_handlers.ArrayHandler", "errors.missing_chunk")
@pytest.mark.covers("type_handlers.NumpyHandler", note="A missing chunk is `data_loss`.")
@pytest.mark.parametrize("kind, theirs", [("np.ndarray", "NOT_FOUND"), ("jax.Array", "Encountered error while reading array index")])
@pytest.mark.parametrize("fill", [False, True])
def test_missing_chunks(scratch, kind, theirs, fill):
    """An error, unless the metadata says that chunks of the fill value were not stored."""
    array = np.arange(1.0, 65.0).reshape(8, 8)
    path = saved(scratch / "ckpt", {"a": array if kind == "np.ndarray" else jax.device_put(array, SPREAD)}, **FOLDERS)
    next(file for file in sorted((path / "a").iterdir()) if file.name[0].isdigit()).unlink()
    if fill:
        text = (path / "_METADATA").read_text()
        assert '"store_array_data_equal_to_fill_value": true' in text
        (path / "_METADATA").write_text(text.replace('"store_array_data_equal_to_fill_value": true', '"store_array_data_equal_to_fill_value": false'))
    want, error, got = restored(path, **FOLDERS)
    if fill:
        assert error is None and np.asarray(want["a"])[0, 0] == 0
        assert tree_json.normal(got["tree"]) == tree_json.normal(tree_json.to_json(want))
        return
    assert theirs in str(error) and got["code"] == "data_loss"
    assert got["error"].startswith("a: ") and "the chunk is missing" in got["error"]


@pytest.mark.covers("type_handlers.StringHandler", note="A missing string is `data_loss`.")
@pytest.mark.covers("errors.missing_chunk")
def test_missing_strings(scratch):
    path = saved(scratch / "ckpt", {"a": "text", "b": "more"})
    (path / "_strings.json").write_text('{"b": "more"}')
    _, error, got = restored(path)
    both(error, got, ValueError, "NOT_FOUND", "data_loss", "a: ", "_strings.json")
    (path / "_strings.json").unlink()
    _, error, got = restored(path)
    both(error, got, ValueError, "NOT_FOUND", "data_loss", "_strings.json is missing")


@pytest.mark.covers("type_handlers.StringHandler")
def test_strings_that_are_numbers(scratch):
    path = saved(scratch / "ckpt", {"a": "text", "b": "more"})
    (path / "_strings.json").write_text('{"a": 5, "b": null}')
    want, error, got = restored(path)
    assert error is None and want == {"a": "5", "b": "None"}
    assert tree_json.normal(got["tree"]) == tree_json.normal(tree_json.to_json(want))


VALUES = [True, False, -0.0, 1e16, 1.5e-7, 123456789012345678901234567890, [], {}, [1, [True, None, 2.5]], {"b": [1], "a": {"c": "x"}},
          ["it's", 'say "x"', "both ' and \"", "back\\slash", "tab\t new\n", "\x00\x7f\x80\xa0\xad", "\u00fc \u4e2d \U0001f600", "\u200b\u2028\ufeff\ue000"]]


@pytest.mark.covers("type_handlers.StringHandler")
def test_strings_that_are_other_values(scratch):
    """Each as a leaf of its own: Python's text of what TensorStore reads."""
    path = saved(scratch / "ckpt", {f"v{i}": "text" for i in range(len(VALUES))})
    (path / "_strings.json").write_text(json.dumps({f"v{i}": value for i, value in enumerate(VALUES)}))
    want, error, got = restored(path)
    assert error is None and want["v9"] == "{'a': {'c': 'x'}, 'b': [1]}"
    assert tree_json.normal(got["tree"]) == tree_json.normal(tree_json.to_json(want))


@pytest.mark.covers("pytree.PyTreeCheckpointHandler.restore")
def test_a_type_that_nobody_knows(scratch):
    path = saved(scratch / "ckpt", {"a": np.arange(3)})
    text = (path / "_METADATA").read_text()
    assert '"np.ndarray"' in text
    (path / "_METADATA").write_text(text.replace('"np.ndarray"', '"quantized"'))
    _, error, got = restored(path)
    both(error, got, ValueError, "TypeHandler lookup failed", "invalid_argument", "a: ", "'quantized'")


# ---- transforms ----
@pytest.mark.covers("pytree.PyTreeRestoreArgs", "errors.transforms")
def test_transforms_that_lack_something(scratch):
    path = saved(scratch / "ckpt", {"a": 7})
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        for args, theirs, ours in (({}, "must provide `item`", "transforms need an item"), ({"item": {"x": 7}}, "must provide `restore_args`", "transforms need restore_args")):
            _, error = outcome(functools.partial(checkpointer.restore, path, args=ocp.args.PyTreeRestore(transforms={}, **args)))
            job = {"op": "restore", "dir": str(path), "transforms": []}
            [got] = run([job | ({"item": tree_json.to_json(args["item"])} if args else {})])
            both(error, got, ValueError, theirs, "invalid_argument", ours)
