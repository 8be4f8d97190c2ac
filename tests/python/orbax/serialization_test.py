"""serialization.async_serialize and async_deserialize, and the replicas of multihost.multislice, beside Orbax."""

import asyncio
import importlib
import json
import pathlib

import jax
import ml_dtypes
import numpy as np
import orbax.checkpoint as real
import pytest
from jax.experimental import layout
from monitored import heard

import cairn.orbax as ours

P = jax.sharding.PartitionSpec


def mesh(shape=(4, 2), names=("x", "y"), devices=None):
    return jax.sharding.Mesh(np.array(devices or jax.devices()).reshape(shape), names)


def put(values, *spec, on=None):
    return jax.device_put(values, jax.sharding.NamedSharding(on or mesh(), P(*spec)))


ARRAYS = {
    "split": lambda: put(np.arange(64, dtype=np.float32).reshape(8, 8), "x", "y"),
    "shared": lambda: put(np.arange(24, dtype=np.int16).reshape(4, 6), "x"),
    "same": lambda: put(np.arange(48.0).reshape(16, 3)),
    "second axis": lambda: put(np.arange(48.0).reshape(3, 16)),
    "no axis": lambda: put(np.arange(9, dtype=np.uint8).reshape(3, 3)),
    "number": lambda: put(np.float32(2.5)),
    "bfloat16": lambda: put(np.arange(16).astype(ml_dtypes.bfloat16), ("x", "y")),
    "empty": lambda: put(np.zeros((0, 3), np.float32)),
    "one device": lambda: jax.device_put(np.arange(6), jax.devices()[3]),
}
SPECS = {
    "plain": {},
    "dtype": {"dtype": "float64"},
    "metadata": {"metadata": {"chunks": [2, 2], "compressor": None}},
    "cast": None,
}


def spec_at(path, **more):
    return {"driver": "zarr", "kvstore": {"driver": "file", "path": str(path)}, **more}


def files(path):
    return {str(one.relative_to(path)): one.read_bytes() for one in path.rglob("*") if one.is_file()}


@pytest.mark.parametrize("options", [{}, {"use_replica_parallel": False}, {"use_replica_parallel": False, "replica_id": 1}], ids=str)
@pytest.mark.parametrize("name", ARRAYS)
def test_both_write_the_same_files(tmp_path, name, options):
    found = []
    for package, ocp in (("ours", ours), ("theirs", real)):
        spec = spec_at(tmp_path / package)
        with heard(tmp_path) as said:
            asyncio.run(ocp.serialization.async_serialize(ARRAYS[name](), spec, **options))
        spec["metadata"] = {key: np.asarray(value).tolist() for key, value in spec["metadata"].items()}
        del spec["kvstore"]
        found.append((spec, files(tmp_path / package), dict(said)))
    assert found[0] == found[1]


@pytest.mark.parametrize("name", SPECS)
def test_specs_that_say_more(tmp_path, name):
    found = []
    for package, ocp in (("ours", ours), ("theirs", real)):
        base = spec_at(tmp_path / package)
        if name == "cast":
            base["dtype"] = "float32"
            spec = {"driver": "cast", "dtype": "float64", "base": {**base, "metadata": {"shape": [8, 8], "chunks": [8, 8], "dtype": "<f4"}}}
        else:
            spec = {**base, **SPECS[name]}
        if name == "dtype":
            array = put(np.arange(64.0).reshape(8, 8), "x")
        else:
            array = ARRAYS["split"]()
            if name == "metadata":
                spec["metadata"] = {**spec["metadata"], "shape": [8, 8]}
        try:
            asyncio.run(ocp.serialization.async_serialize(array, spec))
        except Exception as error:
            found.append(type(error))
            continue
        found.append(files(tmp_path / package))
    assert found[0] == found[1]


def limits_of(ocp):
    return importlib.import_module(f"{ocp.__name__}._src.serialization.limits")


def test_a_limit_and_a_transaction(tmp_path):
    import tensorstore

    for package, ocp in (("ours", ours), ("theirs", real)):
        path = tmp_path / package
        with pytest.raises(ValueError, match="more bytes than we reserved"):
            limit = limits_of(ocp).LimitInFlightBytes(16)
            asyncio.run(ocp.serialization.async_serialize(ARRAYS["split"](), spec_at(path / "a"), byte_limiter=limit))

        async def write(ocp=ocp, path=path):
            transaction = tensorstore.Transaction()
            await ocp.serialization.async_serialize(
                ARRAYS["split"](), spec_at(path / "b"), transaction=transaction, byte_limiter=None
            )
            before = (path / "b").exists()
            await transaction.commit_async()
            return before, (path / "b" / ".zarray").exists()

        assert asyncio.run(write()) == (False, True)
        with pytest.raises(ValueError):
            asyncio.run(ocp.serialization.async_serialize(ARRAYS["split"](), spec_at(path / "c"), replica_id=None))


SHARDINGS = {
    "split": lambda: jax.sharding.NamedSharding(mesh(), P("y", "x")),
    "rows": lambda: jax.sharding.NamedSharding(mesh((8,), "x"), P("x")),
    "same": lambda: jax.sharding.NamedSharding(mesh(), P()),
    "one device": lambda: jax.sharding.SingleDeviceSharding(jax.devices()[5]),
    "format": lambda: layout.Format(layout.Layout((1, 0)), jax.sharding.NamedSharding(mesh(), P("x"))),
    "host memory": lambda: jax.sharding.NamedSharding(mesh(), P("x"), memory_kind="pinned_host"),
}


def read(ocp, sharding, spec, *args, **options):
    try:
        return asyncio.run(ocp.serialization.async_deserialize(sharding, spec, *args, **options))
    except Exception as error:
        return type(error)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"dtype": np.dtype("float16")},
        {"dtype": np.dtype(ml_dtypes.bfloat16)},
        {"global_shape": (16, 8), "strict": False},
        {"global_shape": (24, 16), "strict": False},
        {"global_shape": (8, 16), "strict": False, "dtype": np.dtype("int32")},
        {"global_shape": (4, 4), "strict": False},
        {"global_shape": (16, 8)},
        {"global_shape": (8, 8)},
    ],
    ids=str,
)
@pytest.mark.parametrize("name", SHARDINGS)
def test_both_read_the_same(tmp_path, name, options):
    spec = spec_at(tmp_path / "a")
    asyncio.run(real.serialization.async_serialize(ARRAYS["split"](), spec))
    found = []
    for ocp in (ours, real):
        with heard(tmp_path) as said:
            got = read(ocp, SHARDINGS[name](), spec_at(tmp_path / "a"), **options)
        found.append((got, dict(said)))
    (mine, my_events), (theirs, their_events) = found
    if isinstance(theirs, type):
        assert mine is theirs
        return
    assert my_events == their_events
    assert mine[0].sharding == theirs[0].sharding and mine[0].dtype == theirs[0].dtype
    assert mine[0].format.layout == theirs[0].format.layout
    np.testing.assert_array_equal(np.asarray(mine[0]), np.asarray(theirs[0]))
    if options.get("global_shape") in (None, (8, 8)):
        assert mine[1] == theirs[1]


def test_values_that_cannot_be_read(tmp_path):
    import tensorstore

    spec = spec_at(tmp_path / "a")
    asyncio.run(ours.serialization.async_serialize(ARRAYS["split"](), spec))
    next(one for one in (tmp_path / "a").iterdir() if one.name[0] != ".").write_bytes(b"no chunk")
    for ocp in (ours, real):
        with pytest.raises(Exception, match="read"):
            asyncio.run(ocp.serialization.async_deserialize(SHARDINGS["split"](), spec_at(tmp_path / "a")))
        assert read(ocp, P("x"), spec_at(tmp_path / "a")) is ValueError
        assert read(ocp, None, spec_at(tmp_path / "a")) is ValueError
        got = read(ocp, SHARDINGS["same"](), tensorstore.Spec(spec), byte_limiter=limits_of(ocp).LimitInFlightBytes(64))
        assert got is ValueError


def test_bytes_that_a_read_takes(tmp_path):
    import tensorstore

    modules = [importlib.import_module(f"{ocp.__name__}._src.serialization.serialization") for ocp in (ours, real)]
    spec = spec_at(tmp_path / "a", dtype="float32", metadata={"shape": [10, 7], "chunks": [3, 2]})
    chunked = tensorstore.open(spec, create=True).result()
    plain = tensorstore.array(np.zeros((10, 7), np.int16))
    for store in (chunked, plain, tensorstore.array(np.float64(1))):
        domains = [None, store.domain]
        if store.rank:
            domains += [store[a:b, c:d].domain for a, b, c, d in ((0, 1, 0, 1), (2, 4, 1, 2), (3, 9, 0, 7), (9, 10, 6, 7))]
        for domain in domains:
            counts = [module.estimate_read_memory_footprint(store, domain) for module in modules]
            assert counts[0] == counts[1], domain
    for array in (np.zeros((3, 4), np.int16), np.zeros((0, 4))):
        assert len({module.estimate_write_memory_footprint(array) for module in modules}) == 1


# ---- replicas ----


def replicas(ocp):
    return importlib.import_module(f"{ocp.__name__}._src.multihost.multislice")


MESHES = [((2, 4), ("r", "d")), ((4, 2), ("d", "r")), ((2, 2, 2), ("r", "a", "b")), ((8,), ("d",))]


def test_the_module_can_be_imported():
    import cairn.orbax.multihost.multislice as public

    assert ours.multihost.multislice is public
    assert importlib.import_module("orbax.checkpoint.multihost.multislice").__name__.endswith("multislice")
    theirs = {name for name, value in vars(replicas(real)).items() if getattr(value, "__module__", "") == replicas(real).__name__}
    assert {name for name in theirs if name[0] != "_"} <= set(public.__all__)


@pytest.mark.parametrize("shape, names", MESHES, ids=str)
def test_devices_and_processes_of_replicas(shape, names):
    for axis in range(len(shape)):
        chosen = {"replica_axis_index": axis}
        found = []
        for ocp in (ours, real):
            module, on = replicas(ocp), mesh(shape, names)
            count = module.replica_count(on, **chosen)
            found.append(
                [
                    count,
                    module.local_replica_devices(on, **chosen).tolist() if len(shape) > 1 else None,
                    [np.asarray(module.replica_devices(on, replica_id=n, **chosen)).tolist() for n in range(count)],
                    module.process_replica_id(0, on, **chosen) if len(shape) > 1 else None,
                    module.process_replica_id(7, on, **chosen) if len(shape) > 1 else None,
                    [module.in_replica(n, on, **chosen) for n in range(2) if len(shape) > 1],
                    module.primary_process_in_replica(on, **chosen) if len(shape) > 1 else None,
                    module.get_primary_replica_ids_and_pids(axis, on, 0) if len(shape) > 1 else None,
                    module.process_spans_multiple_replicas(on, **chosen) if len(shape) > 1 else None,
                    module.slice_count(),
                    module.get_device_memory(),
                ]
            )
        assert found[0] == found[1]


def test_a_mesh_of_one_axis():
    """It is one replica. These are AttributeErrors in Orbax."""
    module, on = ours.multihost.multislice, mesh((8,), ("d",))
    assert module.local_replica_devices(on).tolist() == jax.devices()
    assert module.process_replica_id(0, on) == 0 and module.in_replica(0, on) and not module.in_replica(1, on)
    assert module.primary_process_in_replica(on) == 0 and not module.process_spans_multiple_replicas(on)
    assert module.get_primary_replica_ids_and_pids(0, on, 0) == ({device.id for device in jax.devices()}, {0})


class Device:
    def __init__(self, number, process):
        self.id, self.process_index = number, process


def test_replicas_of_several_processes():
    """Devices that say they are those of other processes."""
    for split in ([0, 0, 1, 1, 2, 2, 3, 3], [0, 1, 0, 1, 2, 3, 2, 3], [1, 1, 0, 0, 0, 0, 1, 1], [5, 5, 5, 5, 6, 6, 6, 6]):
        devices = np.array([Device(*pair) for pair in enumerate(split)], object)

        class Mesh:
            shape_tuple = (("r", 2), ("d", 4))

        Mesh.devices = devices.reshape(2, 4)
        found = []
        for ocp in (ours, real):
            module = replicas(ocp)
            found.append([module.process_replica_id(n, Mesh) for n in range(8)])
            found[-1] += [module.in_replica(n, Mesh, replica_id=r) for n in range(8) for r in range(2)]
            found[-1] += [module.process_spans_multiple_replicas(Mesh), module.get_primary_replica_ids_and_pids(0, Mesh, 1)]
            try:
                found[-1].append([one.id for one in module.local_replica_devices(Mesh)])
            except ValueError as error:
                found[-1].append(type(error))
        assert found[0] == found[1], split


def source(axis, on):
    """Arrays of the first replica."""
    devices = np.take(on.devices, 0, axis=axis)
    names = [name for at, name in enumerate(on.axis_names) if at != axis]
    small = jax.sharding.Mesh(devices, names)
    values = {
        (): np.arange(8, dtype=np.float32).reshape(4, 2),
        (names[0],): np.arange(12, dtype=np.int64).reshape(4, 3),
        (None, names[0]): np.arange(8).astype(ml_dtypes.bfloat16).reshape(2, 4),
    }
    return tuple(put(value, *spec, on=small) for spec, value in values.items()), list(values.values())


@pytest.mark.parametrize("limit", [None, 1, 40, 60, 10**6])
@pytest.mark.parametrize("shape, names, axis", [((2, 4), ("r", "d"), 0), ((4, 2), ("d", "r"), 1), ((2, 2, 2), ("r", "a", "b"), 0)])
def test_broadcasts(shape, names, axis, limit):
    found = []
    for ocp in (ours, real):
        module, on = replicas(ocp), mesh(shape, names)
        arrays, values = source(axis, on)
        described = tuple(jax.ShapeDtypeStruct(one.shape, one.dtype, sharding=one.sharding) for one in arrays)
        module.precompile_broadcast(described, on, axis, limit)
        assert module.tree_memory_per_device(arrays) == sum(map(module.get_leaf_memory_per_device, arrays))
        assert module.get_available_memory(arrays, 0.5) > 0
        with pytest.raises(ValueError, match="scaling_factor"):
            module.get_available_memory(arrays, 1.5)
        result, count = module.broadcast_one_replica_to_all(arrays, on, axis, True, limit)
        assert all(one.is_deleted() for one in arrays)
        for one, value in zip(result, values, strict=True):
            np.testing.assert_array_equal(one, value)
            assert one.dtype == value.dtype
        zeros, _ = module.broadcast_one_replica_to_all(described, on, axis, False, limit)
        assert not any(np.asarray(one, np.float32).any() for one in zeros)
        found.append((count, [one.sharding for one in result]))
        with pytest.raises(ValueError, match="NamedSharding"):
            module.broadcast_one_replica_to_all((jax.numpy.ones(4),), on, axis, True, 100)
    assert found[0] == found[1]


def test_small_types_stay_in_a_broadcast():
    """Orbax adds them up as int32 or int64."""
    on = mesh((2, 4), ("r", "d"))
    small = jax.sharding.Mesh(on.devices[0], ("d",))
    values = [np.array([True, False, True, True]), np.arange(-2, 2, dtype=np.int8)]
    result, _ = ours.multihost.multislice.broadcast_one_replica_to_all(tuple(put(one, "d", on=small) for one in values), on, 0, True)
    for one, value in zip(result, values, strict=True):
        np.testing.assert_array_equal(one, value)
        assert one.dtype == value.dtype
