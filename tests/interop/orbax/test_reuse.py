"""Steps that share the files of what did not change: the real Orbax restores each of them, alone."""

import os
import random
import shutil
import subprocess
import zlib

import numpy as np
import orbax.checkpoint as ocp
import pytest
from test_manager import Cairn

SEED = int(os.environ["CAIRN_SEED"])
DTYPES = ["<f4", "<f8", "<u2", "|i1", "|b1", "<i8"]
OWN_FILE = 4 << 20  # values that take so many bytes have a data file of their own
LAYOUTS = [(True, False), (True, True), (False, False), (False, True)]  # OCDBT, Zarr v3


def random_array(rng, nbytes=None):
    dtype = np.dtype(rng.choice(DTYPES))
    nbytes = rng.choice([8, 500, 2000, 30_000, 700_000, OWN_FILE + 4096]) if nbytes is None else nbytes
    noise = np.random.default_rng(rng.randrange(2**32)).integers(0, 2 if dtype.kind == "b" else 256, nbytes // dtype.itemsize * dtype.itemsize, np.uint8)
    array = noise.view(dtype)
    if dtype.kind == "f":
        array = np.random.default_rng(rng.randrange(2**32)).standard_normal(array.size).astype(dtype)
    if rng.random() < 0.3:
        array = np.zeros_like(array) + array[:1]  # compresses well
    return array.reshape(2, -1) if array.size % 2 == 0 and rng.random() < 0.5 else array


def changed(rng, array):
    """As the array, but for one element or for its type or shape."""
    if array.size == 0 or rng.random() < 0.2:
        return random_array(rng)
    if rng.random() < 0.2:
        return array.reshape(-1, 1)
    flat = array.copy().reshape(-1)
    at = rng.randrange(flat.size)
    with np.errstate(over="ignore"):  # the least integer is another one, too
        flat[at] = not flat[at] if flat.dtype.kind == "b" else flat[at] + 1
    return flat.reshape(array.shape)


def next_tree(rng, tree):
    share = rng.choice([0.05, 0.3, 0.9])
    new = {name: changed(rng, array) if rng.random() < share else array for name, array in tree.items() if rng.random() > 0.05}
    if rng.random() < 0.3 or not new:
        new[f"new{rng.randrange(1000)}"] = random_array(rng)
    return new


def save_with_orbax(root, step, tree, ocdbt, zarr3):
    handlers = {"default": ocp.PyTreeCheckpointHandler(use_ocdbt=ocdbt, use_zarr3=zarr3)}
    options = ocp.CheckpointManagerOptions(enable_async_checkpointing=False)
    with ocp.CheckpointManager(root, options=options, item_names=tuple(handlers), item_handlers=handlers) as manager:
        manager.save(step, args=ocp.args.Composite(default=ocp.args.PyTreeSave(tree)))


def assert_restores(step, tree):
    handler = ocp.PyTreeCheckpointHandler(use_ocdbt=(step / "default" / "manifest.ocdbt").exists())
    found = ocp.Checkpointer(handler).restore(step / "default", args=ocp.args.PyTreeRestore())
    assert found.keys() == tree.keys()
    for name, array in tree.items():
        assert (found[name].dtype, found[name].shape, found[name].tobytes()) == (array.dtype, array.shape, array.tobytes()), name


def same(a, b):
    return b is not None and (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def is_large(array):
    """Whether it has a data file of its own, however it is encoded."""
    start = array.tobytes()[: 1 << 16]
    return array.nbytes >= OWN_FILE and len(zlib.compress(start, 1)) > 0.95 * len(start)


def least_reused(ocdbt, own, tree, before):
    """How many arrays must be shared: those with files of their own; without a database all."""
    kept = [name for name, array in tree.items() if array.size and same(array, before.get(name))]
    return sum(name in own for name in kept) if ocdbt else len(kept)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{'ocdbt' if layout[0] else 'folders'}_zarr{3 if layout[1] else 2}")
@pytest.mark.parametrize("number", range(3))
def test_every_step_restores_alone(scratch, layout, number):
    ocdbt, zarr3 = layout
    rng = random.Random(f"{SEED} {layout} {number}")
    root = scratch / "run"
    options = {"reuse": True, "ocdbt": ocdbt, "zarr3": zarr3, "async": rng.random() < 0.5}
    cairn = Cairn()
    cairn.do(op="open", root=str(root), options=options)
    tree = {f"w{i}": random_array(rng, OWN_FILE + 4096 * i if i < 2 else None) for i in range(8)}
    frozen = {"frozen": np.random.default_rng(SEED).integers(0, 256, OWN_FILE, np.uint8)}
    trees, own, total = {}, set(), 0
    for step in range(1, 8):
        before = tree if trees else {}
        tree = (next_tree(rng, tree) if trees else tree) | frozen
        trees[step] = tree
        if step > 2 and rng.random() < 0.25:
            save_with_orbax(root, step, tree, ocdbt, zarr3)
            cairn.do(op="reload")
            own = set()
            continue
        if rng.random() < 0.3:  # a new manager knows nothing about the files
            cairn.do(op="open", root=str(root), options=options)
        source = scratch / "source.npz"
        np.savez(source, **tree)
        answer = cairn.do(op="save", step=step, tree=str(source))
        assert answer["result"] is True
        assert answer["reused"] >= least_reused(ocdbt, own, tree, before)
        assert ocdbt or answer["reused"] == least_reused(ocdbt, own, tree, before)
        own = {name for name, array in tree.items() if is_large(array) and (name in own or not same(array, before.get(name)))}
        total += answer["reused"]
    cairn.close()
    assert total > 0
    for step, tree in trees.items():
        assert_restores(root / str(step), tree)
    for step, tree in trees.items():
        alone = scratch / "alone"
        subprocess.run(["cp", "-al", root, alone], check=True)
        for other in trees.keys() - {step}:
            shutil.rmtree(alone / str(other))
        assert_restores(alone / str(step), tree)
        shutil.rmtree(alone)


def test_orbax_continues_a_shared_step(scratch):
    """Orbax writes, deletes and reads beside steps that share files, and changes none of them."""
    root = scratch / "run"
    noise = np.random.default_rng(SEED)
    tree = {name: noise.integers(0, 256, size, np.uint8) for name, size in (("a", OWN_FILE), ("b", 9000))}
    np.savez(scratch / "tree.npz", **tree)
    cairn = Cairn()
    cairn.do(op="open", root=str(root), options={"reuse": True})
    for step in (1, 2, 3):
        assert cairn.do(op="save", step=step, tree=str(scratch / "tree.npz"))["reused"] == (0 if step == 1 else 2)
    with ocp.CheckpointManager(root, options=ocp.CheckpointManagerOptions(max_to_keep=2, enable_async_checkpointing=False)) as manager:
        manager.save(4, args=ocp.args.PyTreeSave({"c": np.arange(3)}))
        assert manager.all_steps() == [3, 4]
    assert_restores(root / "3", tree)
    cairn.close()
