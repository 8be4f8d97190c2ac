"""Checkpoints of which something is missing: which error the real Orbax raises and which Cairn does, leaf by leaf.

One checkpoint for each form of storage has leaves of which the folder, the metadata or a chunk is gone, and one that only `_METADATA` lists.
"""

import json
import re
import shutil

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
import tensorstore as ts

import tree_json
from test_pytree_handler import difference, outcome, run

VALUES = {"jax": jnp.arange(1.0, 17, dtype=jnp.float32).reshape(4, 4), "numpy": np.arange(1, 17, dtype=np.int16).reshape(4, 4), "scalar": 7}
LOST = ["folder", "metadata", "chunk"]
TREE = {"kept": np.arange(3), "unlisted": 5} | {f"{kind}_{lost}": value for kind, value in VALUES.items() for lost in LOST}

# What Orbax says, and what Cairn says: {} is the name of the metadata's file.
FOLDERS = {"folder": (FileNotFoundError, "Individual parameter subdirectory not found", "not_found", "its folder is missing"),
           "metadata": (FileNotFoundError, "File not found: .*/{}", "not_found", "its folder has no {}")}
DATABASE = dict.fromkeys(FOLDERS, (ValueError, "Metadata at .*/{}.* does not exist", "not_found", "no array of this name is stored"))
CHUNK = (ValueError, "NOT_FOUND: chunk .* is missing", "data_loss", "the chunk is missing")
CHUNK_ON_DEVICES = (Exception, "Encountered error while reading array index", "data_loss", "the chunk is missing")


def remove(path, leaf, lost, options):
    """Removes what a leaf has lost."""
    described = "zarr.json" if options["use_zarr3"] else ".zarray"

    def is_lost(name):
        return lost == "folder" or name.endswith(described) == (lost == "metadata")

    if options["use_ocdbt"]:
        store = ts.KvStore.open({"driver": "ocdbt", "base": {"driver": "file", "path": f"{path}/"}}).result()
        for key in store.list().result():
            if key.startswith(f"{leaf}/".encode()) and is_lost(key.decode()):
                store.write(key, None).result()
    elif lost == "folder":
        shutil.rmtree(path / leaf)
    else:
        for file in list(path.joinpath(leaf).rglob("*")):
            if file.is_file() and is_lost(file.name):
                file.unlink()


def relist(path):
    """Lists a leaf that is nowhere, and one less than there is."""
    file = path / "_METADATA"
    metadata = json.loads(file.read_text())
    leaves = metadata["tree_metadata"]
    leaves["('ghost',)"] = {"key_metadata": [{"key": "ghost", "key_type": 2}], "value_metadata": leaves["('kept',)"]["value_metadata"]}
    del leaves["('unlisted',)"]
    file.write_text(json.dumps(metadata))


def expected(leaf, options):
    kind, _, lost = leaf.partition("_")
    if lost == "chunk":
        return CHUNK_ON_DEVICES if kind == "jax" else CHUNK
    return (DATABASE if options["use_ocdbt"] else FOLDERS)[lost or "folder"]


@pytest.mark.covers(
    "type_handlers.NumpyHandler", "tensorstore_utils.assert_parameter_files_exist",
    "errors.missing_array",
)
@pytest.mark.parametrize("use_zarr3", [False, True])
@pytest.mark.parametrize("use_ocdbt", [False, True])
def test_what_is_missing(scratch, use_ocdbt, use_zarr3):
    options = {"use_ocdbt": use_ocdbt, "use_zarr3": use_zarr3}
    handler, path = ocp.PyTreeCheckpointHandler(**options), scratch / "ckpt"
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(TREE))
    for leaf in TREE:
        if "_" in leaf:
            remove(path, leaf, leaf.partition("_")[2], options)
    relist(path)
    file = "zarr.json" if use_zarr3 else ".zarray"
    lost = [leaf for leaf in [*TREE, "ghost"] if leaf not in ("kept", "unlisted")]

    # Each leaf for itself; by the older functions, which fill missing chunks; all that is left; and all of it.
    cases = [({"item": {leaf: 0}, "partial_restore": True}, expected(leaf, options)) for leaf in lost]
    cases += [({"item": {leaf: 0}, "restore_args": {leaf: ocp.RestoreArgs()}, "transforms": {}}, None if leaf.endswith("chunk") else expected(leaf, options)) for leaf in lost]
    cases += [({"item": dict.fromkeys(lost, ...) | {"kept": 0}}, None), ({"item": {"kept": 0, "unlisted": 6}, "partial_restore": True}, None)]
    jobs = []
    for given, _ in cases:
        job = {"op": "restore", "dir": str(path), "options": options, "item": tree_json.to_json(given["item"]), "partial": given.get("partial_restore", False)}
        jobs.append(job | ({"restore_args": tree_json.to_json(given["restore_args"]), "transforms": []} if "transforms" in given else {}))
    *answers, metadata = run([*jobs, {"op": "metadata", "dir": str(path), "options": options}])
    for (given, want), got in zip(cases, answers, strict=True):
        value, error = outcome(lambda: handler.restore(path, args=ocp.args.PyTreeRestore(**given)))
        if want is None:
            assert error is None, given
            assert not difference(tree_json.normal(got["tree"]), tree_json.normal(tree_json.to_json(value)))
            continue
        kind, theirs, code, ours = want
        assert isinstance(error, kind) and re.search(theirs.format(re.escape(file)), str(error), re.S), (given, error)
        assert (got["code"], ours.format(file) in got["error"]) == (code, True), (given, got)
        assert got["error"].startswith(f"{next(iter(given['item']))}: "), got

    _, error = outcome(lambda: handler.metadata(path))
    assert isinstance(error, ValueError) and "does not exist" in str(error), error
    assert metadata["code"] == "not_found" and "no array of this name" in metadata["error"], metadata
