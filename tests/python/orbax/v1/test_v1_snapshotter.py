"""training.pathways.Snapshotter, beside Orbax's, with functions in place of those of pathwaysutils."""

import importlib
import sys
import types

import jax
import numpy as np
import pytest

PLACES = ("orbax.checkpoint.experimental.v1.training.pathways", "cairn.orbax.v1.training.pathways")
P = jax.sharding.PartitionSpec


def mesh(devices=slice(None)):
    return jax.sharding.Mesh(np.array(jax.devices()).reshape(2, 2, 2)[devices], ("replica", "x", "y"))


def put(values, *spec, on=None):
    return jax.device_put(values, jax.sharding.NamedSharding(on or mesh(), P(*spec)))


def on_mesh(like, devices, parts):
    """An array of the shards of others, whose values are the same in all replicas."""
    sharding = jax.sharding.NamedSharding(
        jax.sharding.Mesh(devices, like.sharding.mesh.axis_names), like.sharding.spec, memory_kind=like.sharding.memory_kind
    )
    shards = {one.device: one.data for part in parts for one in part.addressable_shards}
    return jax.make_array_from_single_device_arrays(like.shape, sharding, [shards[one] for one in sharding.addressable_devices_indices_map(like.shape)])


class Pathways:
    """Remembers the parts, so that a test can lose some."""

    def __init__(self):
        self.parts = []

    def split(self, array, axis):
        devices, at = array.sharding.mesh.devices, array.sharding.mesh.axis_names.index(axis)
        parts = [on_mesh(array, np.take(devices, [n], at), [array]) for n in range(devices.shape[at])]
        self.parts.append(parts)
        return parts

    def join(self, arrays, axis):
        at = arrays[0].sharding.mesh.axis_names.index(axis)
        return on_mesh(arrays[0], np.concatenate([one.sharding.mesh.devices for one in arrays], at), arrays)

    def lose(self, replica):
        for parts in self.parts:
            parts[replica].delete()


@pytest.fixture(params=PLACES, ids=["orbax", "cairn"])
def snapshotter(request):
    return importlib.import_module(request.param).Snapshotter


@pytest.fixture
def pathways(monkeypatch):
    made = Pathways()
    modules = {
        "pathwaysutils": types.ModuleType("pathwaysutils"),
        "pathwaysutils.experimental": types.ModuleType("pathwaysutils.experimental"),
    }
    for name, function in (("split_by_mesh_axis", made.split), ("concatenate_by_mesh_axis", made.join)):
        module = types.ModuleType(name)
        setattr(module, name, function)
        setattr(modules["pathwaysutils.experimental"], name, module)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)
    return made


def state():
    return {
        "a": put(np.arange(16.0).reshape(4, 4), "x", "y"),
        "b": [put(np.arange(3)), 5, "text", np.ones(2)],
        "key": put(jax.random.split(jax.random.key(7), 2), "x"),
    }


def abstract(tree, on=None):
    def describe(leaf):
        if not isinstance(leaf, jax.Array):
            return leaf
        sharding = jax.sharding.NamedSharding(on or leaf.sharding.mesh, leaf.sharding.spec)
        return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)

    return jax.tree.map(describe, tree)


def check(found, expected, on=None):
    assert jax.tree.structure(found) == jax.tree.structure(expected)
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert type(mine) is type(theirs)
        if isinstance(mine, jax.Array):
            assert mine.dtype == theirs.dtype
            data = [one.sharding for one in (mine, theirs)]
            assert data[0].mesh == (on or data[1].mesh) and data[0].memory_kind in (None, data[1].memory_kind)
            if jax.dtypes.issubdtype(mine.dtype, jax.dtypes.prng_key):
                mine, theirs = map(jax.random.key_data, (mine, theirs))
        np.testing.assert_array_equal(np.asarray(mine), np.asarray(theirs))


def test_without_pathways(snapshotter):
    with pytest.raises(ImportError, match="requires pathwaysutils"):
        snapshotter()


def test_snapshots(snapshotter, pathways):
    made = snapshotter(replica_axis_index=0)
    assert made.latest is None and made.replica_axis_index == 0
    with pytest.raises(RuntimeError):
        made.load(abstract(state()))
    made.save(3, state())
    made.join()
    assert (made.latest.step, made.latest.metadata, str(made.latest.path)) == (3, None, ".")
    assert {part.sharding.memory_kind for parts in pathways.parts for part in parts} == {"pinned_host"}
    for reset in (True, False, True):
        count = len(pathways.parts)
        check(made.load(abstract(state()), reset_snapshot_state=reset), state())
        assert len(pathways.parts) == count + 3 * reset and made.latest.step == 3
    made.save(4, {"n": 7})
    made.join()
    assert made.latest.step == 4 and made.load({"n": 0}) == {"n": 7}
    with pytest.raises(ValueError):
        made.load({"m": 0})


@pytest.mark.parametrize("lost", [0, 1])
def test_a_replica_that_is_lost(snapshotter, pathways, lost):
    made = snapshotter()
    made.save(1, state())
    made.join()
    pathways.lose(lost)
    left = mesh([1 - lost])
    check(made.load(abstract(state(), left)), state(), left)
    check(made.load(abstract(state(), left)), state(), left)  # of the snapshot that the first one has made
    pathways.parts = [parts[:1] for parts in pathways.parts]
    for parts in pathways.parts:
        parts[0].delete()
    if lost == 0:  # the others are of replica 1, which is the first one of the later snapshots
        with pytest.raises(RuntimeError):
            made.load(abstract(state(), left))


def test_another_axis_and_arrays_that_differ(snapshotter, pathways):
    made = snapshotter(replica_axis_index=1)
    values = {"a": put(np.arange(8.0), "y")}
    made.save(1, values)
    made.join()
    assert [len(parts) for parts in pathways.parts] == [2]
    check(made.load(abstract(values)), values)
    line = jax.sharding.Mesh(np.array(jax.devices()).reshape(1, 8), ("a", "b"))
    with pytest.raises(ValueError, match="replicas"):
        made.save(2, {**values, "b": put(np.arange(8.0), on=line)})
    assert made.latest.step == 1


def test_one_that_is_busy(snapshotter, pathways, monkeypatch, caplog):
    import threading

    made, go = snapshotter(), threading.Event()
    wait = jax.block_until_ready

    def slow(tree):
        if threading.current_thread() is not threading.main_thread():
            go.wait(60)
        return wait(tree)

    monkeypatch.setattr(jax, "block_until_ready", slow)
    for step in range(6):
        made.save(step, {"a": put(np.arange(4.0))})
    go.set()
    made.join()
    assert made.latest is not None
    # One is copied while another one waits; no more than these two are taken.
    left_out = [one for one in caplog.records if "snapshot" in one.getMessage().lower()]
    assert 4 <= len(left_out) <= 5


def test_copies_that_fail(snapshotter, pathways):
    made = snapshotter()
    made.save(1, {"a": put(np.arange(4.0))})
    made.join()

    def lost(array, axis):
        parts = pathways.split(array, axis)
        parts[0].delete()
        return parts

    made2 = snapshotter()
    split = "_split" if "cairn" in type(made2).__module__ else "_split_by_mesh_axis"
    if split == "_split":
        made2._split = lost
    else:
        made2._split_by_mesh_axis = types.SimpleNamespace(split_by_mesh_axis=lost)
    made2.save(2, {"a": put(np.arange(4.0))})
    made2.join()
    assert made2.latest is None and made.latest.step == 1
