"""Saves by several of Cairn's processes beside one by the real Orbax: the same files beside the arrays, and the real Orbax restores both alike.

Random trees on random meshes, whose devices random processes hold; every form of storage; what replicas share. The processes are threads of a tool.
"""

import json
import os

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from orbax.checkpoint._src.metadata import array_metadata_store

import random_trees
import test_pytree_handler as handler_test
import tree_json

FRESH = int(os.environ["CAIRN_SEED"])
CASES = 5  # of each seed


def over_all(rng, shape):
    """A sharding over all eight devices: every process that holds some is needed."""
    while True:
        sharding = random_trees.random_sharding(rng, shape)
        if len(sharding.device_set) == 8:
            return sharding


def draw_tree(rng):
    """A tree whose device arrays are all spread over all devices, and one of them large enough not to be kept in a database's tree."""
    def spread(leaf):
        if not isinstance(leaf, jax.Array):
            return leaf
        if random_trees.is_key(leaf):
            mesh = Mesh(np.array(rng.permutation(np.array(jax.devices()))), ("all",))
            return jax.device_put(leaf, NamedSharding(mesh, PartitionSpec()))
        return jax.device_put(np.asarray(leaf), over_all(rng, leaf.shape))

    tree = jax.tree.map(spread, handler_test.draw_tree(rng, placeholders=False))
    large = rng.integers(0, 100, (64, 48)).astype(np.int32)
    return {**tree, "large": jax.device_put(large, over_all(rng, large.shape))}


def draw_owners(rng):
    """Which process holds which devices; some may hold none, none holds all."""
    processes = int(rng.choice([2, 2, 3, 4, 8]))
    while True:
        owner = rng.integers(0, processes, 8)
        if len(set(owner)) > 1:
            return [[device for device in range(8) if owner[device] == p] for p in range(processes)]


def draw_array_options(rng):
    options = {"use_replica_parallel": bool(rng.random() < 0.7), "min_slice_bytes": [0, 0, 24, 100][rng.integers(4)]}
    return options | {"max_replicas": [None, None, 2, 3][rng.integers(4)]}


def orbax_handler(options, array):
    handlers = ocp.type_handlers
    registry = handlers.create_type_handler_registry(
        (int, handlers.ScalarHandler()), (float, handlers.ScalarHandler()), (np.number, handlers.ScalarHandler()), (np.ndarray, handlers.NumpyHandler()),
        (str, handlers.StringHandler()),
        (jax.Array, handlers.ArrayHandler(
            array_metadata_store=array_metadata_store.Store(), use_replica_parallel=array["use_replica_parallel"],
            min_slice_bytes_for_replica_parallel=array["min_slice_bytes"],
            max_replicas_for_replica_parallel=array["max_replicas"])))
    return ocp.PyTreeCheckpointHandler(**options, type_handler_registry=registry)


def other_restore(rng, leaf):
    """Arguments for a mesh that has nothing to do with the saved one, or for a host array."""
    if not isinstance(leaf, jax.Array) or random_trees.is_key(leaf):
        return ocp.RestoreArgs()
    if rng.random() < 0.3:
        return ocp.RestoreArgs(restore_type=np.ndarray)
    return ocp.ArrayRestoreArgs(sharding=random_trees.random_sharding(rng, leaf.shape))


@pytest.mark.covers(
    "type_handlers.ArrayHandler",
    note="`primary_host` is an option of the checkpoint handler, for all type handlers.",
)
@pytest.mark.covers("pytree.PyTreeCheckpointHandler")
@pytest.mark.parametrize("seed", [*range(20), FRESH, FRESH + 1])
def test_orbax_restores_what_processes_saved(scratch, seed):
    rng = np.random.default_rng([seed, 61])
    for case in range(CASES):
        options = {"use_ocdbt": bool(rng.random() < 0.7), "use_zarr3": bool(rng.integers(2)), "use_compression": bool(rng.integers(2))}
        array, owners, tree = draw_array_options(rng), draw_owners(rng), draw_tree(rng)
        chunk = int(rng.choice([16, 64, 1000])) if rng.random() < 0.3 else None
        save_args = jax.tree.map(lambda _: ocp.SaveArgs(chunk_byte_size=chunk), tree)
        if rng.random() < 0.4:
            save_args["large"] = ocp.SaveArgs(dtype=np.dtype(["float32", "int8", "complex64"][rng.integers(3)]))
        ours, theirs = scratch / f"ours{case}", scratch / f"theirs{case}"
        job = {"op": ["save", "async_save"][rng.integers(2)], "dir": str(ours), "options": options, "item": tree_json.to_json(tree),
               "save_args": tree_json.to_json(save_args), "owners": owners, "primary": int(rng.integers(len(owners))),
               "array": array | {"separate_folder": bool(rng.integers(2))}}
        assert handler_test.run([job]) == [{"done": True}]
        with ocp.Checkpointer(orbax_handler(options, array)) as checkpointer:
            checkpointer.save(theirs, args=ocp.args.PyTreeSave(tree, save_args=save_args))
            want = checkpointer.restore(theirs)
            assert tree_json.to_json(checkpointer.restore(ours)) == tree_json.to_json(want)
            assert handler_test.describe(checkpointer, ours) == handler_test.describe(checkpointer, theirs)
            for _ in range(2):
                args = ocp.args.PyTreeRestore(restore_args=jax.tree.map(lambda leaf: other_restore(rng, leaf), want, is_leaf=lambda leaf: leaf is None))
                assert tree_json.to_json(checkpointer.restore(ours, args=args)) == tree_json.to_json(checkpointer.restore(theirs, args=args))
        check_files(ours, theirs, len(owners), options["use_ocdbt"])


def check_files(ours, theirs, processes, use_ocdbt):
    for name in ("_METADATA", "_sharding", "_strings.json"):
        assert (ours / name).exists() == (theirs / name).exists()
        if (theirs / name).exists():
            assert json.loads((ours / name).read_text()) == json.loads((theirs / name).read_text())
    recorded = json.loads((theirs / "array_metadatas" / "process_0").read_text())
    assert sorted(file.name for file in (ours / "array_metadatas").iterdir()) == [f"process_{p}" for p in range(processes)]
    for p in range(processes):
        assert json.loads((ours / "array_metadatas" / f"process_{p}").read_text()) == recorded
    assert (ours / "manifest.ocdbt").exists() == use_ocdbt
    assert bool(list(ours.glob("ocdbt.process_*"))) == use_ocdbt
