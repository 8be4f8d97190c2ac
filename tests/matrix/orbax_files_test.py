"""Checkpoints of the row's Orbax and of Cairn: each restores, bit for bit, what the other saved."""

import contextlib
import inspect

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import cairn
import cairn.orbax
from matrix_trees import DTYPES, SMALL, arrays_of, bits, same

HAS_ZARR3 = "use_zarr3" in inspect.signature(ocp.PyTreeCheckpointHandler).parameters
LAYOUTS = {"ocdbt-zarr2": {"use_ocdbt": True}, "files-zarr2": {"use_ocdbt": False}}
if HAS_ZARR3:
    LAYOUTS["ocdbt-zarr3"] = {"use_ocdbt": True, "use_zarr3": True}
    LAYOUTS["files-zarr3"] = {"use_ocdbt": False, "use_zarr3": True}
layouts = pytest.mark.parametrize("layout", LAYOUTS)
# test_small_types has the others, which old versions of TensorStore lack.
TREE = {
    "numpy": {name: bits(name) for name in DTYPES + ["bfloat16"]},
    "numbers": {"int": 3, "float": 2.5},
    "list": [np.arange(6.0).reshape(2, 3), {"inner": np.full((2,), 7, np.int32)}],
    "none": None,
    "empty": {},
}
ARRAYS = {"w": jnp.arange(12.0).reshape(3, 4), "b": {"c": np.arange(3, dtype=np.int16)}, "step": 5}


def theirs(**options):
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options))


@pytest.fixture(autouse=True)
def wide_types():
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", False)


@layouts
def test_orbax_restores_what_cairn_saves(tmp_path, layout):
    cairn.save(tmp_path / "c", TREE, **LAYOUTS[layout])
    found = theirs(**LAYOUTS[layout]).restore(tmp_path / "c")
    same(found, TREE)


@layouts
def test_cairn_loads_what_orbax_saves(tmp_path, layout):
    theirs(**LAYOUTS[layout]).save(tmp_path / "c", TREE)
    same(cairn.load(tmp_path / "c"), TREE)
    assert cairn.verify(tmp_path / "c")
    with cairn.orbax.PyTreeCheckpointer() as checkpointer:
        same(checkpointer.restore(tmp_path / "c"), TREE)


@layouts
def test_cairns_own_checkpointer_writes_for_orbax(tmp_path, layout):
    handler = cairn.orbax.PyTreeCheckpointHandler(**LAYOUTS[layout])
    with cairn.orbax.Checkpointer(handler) as checkpointer:
        checkpointer.save(tmp_path / "c", TREE)
    same(theirs(**LAYOUTS[layout]).restore(tmp_path / "c"), TREE)


@pytest.mark.parametrize("name", SMALL)
def test_small_types(tmp_path, name):
    tree = {"a": bits(name)}
    cairn.save(tmp_path / "ours", tree)
    same(cairn.load(tmp_path / "ours"), tree)
    same(theirs().restore(tmp_path / "ours"), tree)
    theirs().save(tmp_path / "theirs", tree)
    same(cairn.load(tmp_path / "theirs"), tree)


def test_standard_checkpointers(tmp_path):
    with cairn.orbax.StandardCheckpointer() as checkpointer:
        checkpointer.save(tmp_path / "ours", ARRAYS)
    with ocp.StandardCheckpointer() as checkpointer:
        same(checkpointer.restore(tmp_path / "ours"), ARRAYS)
        checkpointer.save(tmp_path / "theirs", ARRAYS)
    same(cairn.load(tmp_path / "theirs"), ARRAYS)
    with cairn.orbax.StandardCheckpointer() as checkpointer:
        same(checkpointer.restore(tmp_path / "theirs"), ARRAYS)


def managed(package, folder, steps):
    with contextlib.closing(package.CheckpointManager(folder)) as manager:
        for step in steps:
            manager.save(step, args=package.args.StandardSave({"w": np.full(3, step), "n": step}))
        manager.wait_until_finished()


def test_managers_go_on_with_each_others_steps(tmp_path):
    managed(ocp, tmp_path, [1, 2])
    managed(cairn.orbax, tmp_path, [3])
    managed(ocp, tmp_path, [4])
    for package in (ocp, cairn.orbax):
        with contextlib.closing(package.CheckpointManager(tmp_path)) as manager:
            assert list(manager.all_steps()) == [1, 2, 3, 4] and manager.latest_step() == 4
            for step in manager.all_steps():
                found = manager.restore(step, args=package.args.StandardRestore())
                same(found, {"w": np.full(3, step), "n": step})
    assert [one["step"] for one in cairn.steps(tmp_path)] == [1, 2, 3, 4]
    same(cairn.load(tmp_path, step=3), {"w": np.full(3, 3), "n": 3})


@layouts
def test_shardings(tmp_path, mesh, layout):
    array = jax.device_put(
        np.arange(64.0, dtype=np.float32).reshape(8, 8),
        NamedSharding(mesh, PartitionSpec("x", "y")),
    )
    other = NamedSharding(mesh, PartitionSpec("y"))
    options = LAYOUTS[layout]
    cairn.save(tmp_path / "ours", {"a": array}, **options)
    theirs(**options).save(tmp_path / "theirs", {"a": array})
    arguments = {"a": ocp.ArrayRestoreArgs(sharding=other, global_shape=(8, 8))}
    found = theirs(**options).restore(tmp_path / "ours", restore_args=arguments)["a"]
    assert found.sharding == other
    same(found, array)
    target = jax.ShapeDtypeStruct((8, 8), np.float32, sharding=other)
    for path in ("ours", "theirs"):
        found = cairn.load(tmp_path / path, {"a": target})["a"]
        assert found.sharding == other
        same(found, array)


def test_many_leaves(tmp_path):
    tree = {f"layer_{n}": {"w": np.full((5, 7), n, np.float32), "n": n} for n in range(200)}
    cairn.save(tmp_path / "ours", tree)
    same(theirs().restore(tmp_path / "ours"), tree)
    theirs().save(tmp_path / "theirs", tree)
    same(cairn.load(tmp_path / "theirs"), tree)


def test_arrays_by_name(tmp_path):
    """All NumPy types in one checkpoint, read one by one."""
    theirs().save(tmp_path / "c", arrays_of(DTYPES))
    opened = cairn.open(tmp_path / "c")
    for name in DTYPES:
        same(opened[name][1:3], bits(name)[1:3])
