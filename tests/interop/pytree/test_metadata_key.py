"""Array metadata under a name of its own: Orbax's array handlers and TensorStore's "zarr" driver take a `metadata_key`, which no checkpoint records."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
import tensorstore as ts
from orbax.checkpoint import type_handlers
from orbax.checkpoint._src.handlers import base_pytree_checkpoint_handler
from orbax.checkpoint._src.serialization import type_handler_registry

import cairn_cli
import leaves
import tree_json
from test_pytree_handler import run

TREE = {"a": jnp.arange(6.0).reshape(2, 3), "n": {"w": np.arange(4, dtype=np.int16)}, "name.json": jnp.ones(2), "step": 3}


def handler(key, filename=None, **options):
    registry = type_handler_registry.create_type_handler_registry(
        (int, type_handlers.ScalarHandler(metadata_key=key)),
        (str, type_handlers.StringHandler(filename=filename)),
        (np.ndarray, type_handlers.NumpyHandler(metadata_key=key)),
        (jax.Array, type_handlers.ArrayHandler(metadata_key=key)),
    )
    impl = base_pytree_checkpoint_handler.BasePyTreeCheckpointHandler(type_handler_registry=registry, **options)
    return ocp.PyTreeCheckpointHandler(handler_impl=impl, use_ocdbt=options.get("use_ocdbt", True))


def save(path, key, **options):
    with ocp.Checkpointer(handler(key, **options)) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(TREE))


@pytest.mark.parametrize("key", ["meta.json", ".zmetadata", "deeper/meta"])
def test_files(scratch, key):
    path = scratch / "ckpt"
    save(path, key, use_ocdbt=False)
    for name in ("a", "n.w", "step"):
        assert (path / name / key).exists() and not (path / name / ".zarray").exists()
    cairn_cli.check(path, leaves.leaves(TREE))
    findings = cairn_cli.verify(path)["findings"]
    assert findings == []
    assert f"'{key}'" in cairn_cli.run("info", path).stdout.decode()
    cairn_cli.check_npz(path, leaves.leaves(TREE), scratch / "a.npz")


def test_database_that_orbax_does_not_merge(scratch):
    """Orbax writes it, then finds no .zarray and gives up: what is left can be opened as the unfinished save that it is."""
    path = scratch / "ckpt"
    with pytest.raises(ValueError, match="missing .zarray"):
        save(path, "meta.json")
    (temporary,) = scratch.glob("ckpt*")
    cairn_cli.check(temporary, leaves.leaves(TREE), uncommitted=True)


def test_arrays_of_tensorstore(scratch):
    """Nothing but the key tells where the arrays are."""
    values = {"x": np.arange(10, dtype=np.int32), "y/z": np.eye(3)}
    for name, value in values.items():
        spec = {"driver": "zarr", "metadata_key": "m", "kvstore": {"driver": "file", "path": str(scratch / "arrays" / name)}}
        ts.open(spec, create=True, dtype=value.dtype, shape=value.shape).result().write(value).result()
    assert cairn_cli.call("ls", scratch / "arrays").returncode == cairn_cli.IO
    for name, value in values.items():
        assert cairn_cli.run("cat", "--raw", "--metadata-key", "m", scratch / "arrays", name).stdout == value.tobytes()
    assert cairn_cli.run("cat", "--raw", "--metadata-key", "m", scratch / "arrays" / "y" / "z").stdout == np.eye(3).tobytes()


# ---- PyTreeCheckpointHandler with handlers that have a key ----
def as_json(tree):
    return tree_json.normal(tree_json.to_json(tree))


@pytest.mark.covers(
    "pytree.PyTreeSaveArgs", "type_handlers.NumpyHandler", "pytree.PyTreeCheckpointHandler",
)
@pytest.mark.parametrize("key", ["meta.json", ".zmetadata", "deeper/meta"])
def test_handlers_with_a_key_read_each_others(scratch, key):
    theirs, ours, options = scratch / "theirs", scratch / "ours", {"use_ocdbt": False}
    tool = options | {"metadata_key": key}
    with ocp.Checkpointer(handler(key, **options)) as checkpointer:
        checkpointer.save(theirs, args=ocp.args.PyTreeSave(TREE))
        [saved] = run([{"op": "save", "dir": str(ours), "options": tool, "item": tree_json.to_json(TREE)}])
        assert saved == {"done": True}
        for name in ("a", "n.w", "step"):
            assert (ours / name / key).read_bytes() == (theirs / name / key).read_bytes() and not (ours / name / ".zarray").exists()
        want = as_json(checkpointer.restore(theirs))
        assert as_json(checkpointer.restore(ours)) == want
        for folder in (theirs, ours):
            restored, described, other = run([{"op": "restore", "dir": str(folder), "options": tool}, {"op": "metadata", "dir": str(folder), "options": tool},
                                              {"op": "restore", "dir": str(folder), "options": options}])
            assert tree_json.normal(restored["tree"]) == want
            assert "tree" in described
            # Whoever does not know the key finds nothing, there as here.
            assert other["code"] == "not_found" and ".zarray" in other["error"]
    with ocp.Checkpointer(handler(None, **options)) as plain, pytest.raises(FileNotFoundError):
        plain.restore(ours)


@pytest.mark.covers(
    "type_handlers.NumpyHandler",
    note=(
        "`metadata_key` with Zarr v3, or in a database that is validated, is an error before "
        "anything is written. Orbax writes first."
    ),
)
def test_a_key_in_a_database_or_in_zarr_v3_is_refused(scratch):
    for number, options in enumerate([{"use_ocdbt": True}, {"use_ocdbt": False, "use_zarr3": True}]):
        with ocp.Checkpointer(handler("meta", **options)) as checkpointer, pytest.raises(ValueError):
            checkpointer.save(scratch / f"theirs{number}", args=ocp.args.PyTreeSave(TREE))
        [got] = run([{"op": "save", "dir": str(scratch / f"ours{number}"), "options": options | {"metadata_key": "meta"}, "item": tree_json.to_json(TREE)}])
        assert got["code"] == "invalid_argument" and "metadata_key 'meta'" in got["error"]


@pytest.mark.covers("pytree.PyTreeCheckpointHandler")
def test_a_database_that_nobody_checks_may_have_a_key(scratch):
    options = {"use_ocdbt": True, "enable_post_merge_validation": False}
    tool = options | {"metadata_key": "meta"}
    with ocp.Checkpointer(handler("meta", **options)) as checkpointer:
        checkpointer.save(scratch / "theirs", args=ocp.args.PyTreeSave(TREE))
        [saved] = run([{"op": "save", "dir": str(scratch / "ours"), "options": tool, "item": tree_json.to_json(TREE)}])
        assert saved == {"done": True}
        want = as_json(checkpointer.restore(scratch / "theirs"))
        assert as_json(checkpointer.restore(scratch / "ours")) == want
        for restored in run([{"op": "restore", "dir": str(scratch / name), "options": tool} for name in ("theirs", "ours")]):
            assert tree_json.normal(restored["tree"]) == want


# ---- strings in a file of another name ----
STRINGS = {"a": np.arange(3), "s": "text", "t": {"u": "\u00fc", "v": ""}}


@pytest.mark.covers("type_handlers.StringHandler")
@pytest.mark.parametrize("filename", ["texts.json", "_strings"])
@pytest.mark.parametrize("use_ocdbt", [False, True])
def test_strings_of_a_file_of_another_name(scratch, filename, use_ocdbt):
    theirs, ours, options = scratch / "theirs", scratch / "ours", {"use_ocdbt": use_ocdbt}
    tool = options | {"strings_file": filename}
    with ocp.Checkpointer(handler(None, filename, **options)) as checkpointer:
        checkpointer.save(theirs, args=ocp.args.PyTreeSave(STRINGS))
        [saved] = run([{"op": "save", "dir": str(ours), "options": tool, "item": tree_json.to_json(STRINGS)}])
        assert saved == {"done": True}
        for folder in (theirs, ours):
            assert (folder / filename).exists() and not (folder / "_strings.json").exists()
        assert json.loads((ours / filename).read_text()) == json.loads((theirs / filename).read_text())
        want = as_json(checkpointer.restore(theirs))
        assert as_json(checkpointer.restore(ours)) == want
        for folder in (theirs, ours):
            restored, other = run([{"op": "restore", "dir": str(folder), "options": tool}, {"op": "restore", "dir": str(folder), "options": options}])
            assert tree_json.normal(restored["tree"]) == want
            assert "error" in other  # whoever does not know the name finds no strings
    with ocp.Checkpointer(handler(None, **options)) as plain, pytest.raises(Exception):
        plain.restore(ours)


@pytest.mark.parametrize("use_ocdbt", [False, True])
def test_the_command_finds_a_file_of_strings(scratch, use_ocdbt):
    """The checkpoint does not record the name: the one file that has all strings counts. Orbax's own restore must be told."""
    with ocp.Checkpointer(handler(None, "texts.json", use_ocdbt=use_ocdbt)) as checkpointer:
        checkpointer.save(scratch / "a", args=ocp.args.PyTreeSave(STRINGS))
    with ocp.Checkpointer(handler(None, use_ocdbt=use_ocdbt)) as plain, pytest.raises(ValueError, match="_strings.json"):
        plain.restore(scratch / "a")
    assert [cairn_cli.cat(scratch / "a", name).decode() for name in ("s", "t.u", "t.v")] == ["text", "\u00fc", ""]
    assert cairn_cli.verify(scratch / "a")["findings"] == []
    assert "'texts.json' instead of _strings.json" in cairn_cli.run("info", scratch / "a").stdout.decode()
    cairn_cli.run("convert", "--to", "orbax", scratch / "a", scratch / "b")
    with ocp.Checkpointer(handler(None)) as plain:
        assert plain.restore(scratch / "b")["t"] == STRINGS["t"]
    # A second such file, another one that lacks a string, and none.
    strings = json.loads((scratch / "a" / "texts.json").read_text())
    (scratch / "a" / "few.json").write_text(json.dumps({"s": "other"}))
    assert cairn_cli.cat(scratch / "a", "s") == b"text"
    (scratch / "a" / "more.json").write_text(json.dumps(strings))
    with pytest.raises(cairn_cli.Failed, match="_strings.json is missing, and several files have its strings: 'more.json', 'texts.json'"):
        cairn_cli.cat(scratch / "a", "s")
    for name in ("texts.json", "more.json"):
        (scratch / "a" / name).unlink()
    with pytest.raises(cairn_cli.Failed, match="_strings.json is missing, and no other file of the folder has its strings; if a StringHandler"):
        cairn_cli.cat(scratch / "a", "s")
    assert len(cairn_cli.verify(scratch / "a", status=cairn_cli.NO)["findings"]) >= 3


@pytest.mark.covers(
    "type_handlers.StringHandler", alone=True,
    note="`filename` must not name another file of the item. Orbax overwrites that file.",
)
@pytest.mark.parametrize("filename", ["_METADATA", "a/b", "..", "manifest.ocdbt"])
def test_a_file_of_strings_does_not_replace_another_file(scratch, filename):
    """Orbax writes over its own file, or outside the item."""
    [saved] = run([{"op": "save", "dir": str(scratch / "ours"), "options": {"strings_file": filename}, "item": tree_json.to_json(STRINGS)}])
    assert saved["code"] == "invalid_argument" and f"'{filename}'" in saved["error"]
