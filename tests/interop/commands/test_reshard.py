"""`cairn reshard`: the real Orbax restores the same values onto the mesh that was asked for, each device from chunks of its own."""

import itertools
import json
import os

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
import tensorstore as ts
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import cairn_cli

FRESH = int(os.environ["CAIRN_SEED"])
LAYOUTS = {"orbax": {}, "orbax-zarr3": {"use_zarr3": True}, "orbax-files": {"use_ocdbt": False}}


def mesh_of(sizes):
    devices = np.array(jax.devices()[: int(np.prod(list(sizes.values())))]).reshape(list(sizes.values()))
    return Mesh(devices, list(sizes))


def draw_sizes(rng):
    shape = [(1,), (2,), (8,), (2, 2), (4, 2), (2, 4), (2, 1, 4), (2, 2, 2)][rng.integers(8)]
    return {"abcxyz"[rng.integers(3) + 3 * (i % 2)] + str(i): n for i, n in enumerate(shape)}


def draw_spec(rng, sizes, rank):
    """For each dimension a list of axes, each axis at most once."""
    spec = [[] for _ in range(int(rng.integers(0, rank + 1)))]
    for axis in rng.permutation(list(sizes)):
        if spec and rng.random() < 0.7:
            spec[rng.integers(len(spec))].append(str(axis))
    return spec


def draw_array(rng):
    shape = tuple(int(n) for n in 8 * rng.integers(1, 4, rng.integers(0, 4)))
    kind = [np.float32, np.int8, jax.numpy.bfloat16, np.uint16][rng.integers(4)]
    return rng.integers(0, 100, shape).astype(kind)


def partition_spec(spec):
    return PartitionSpec(*(None if not axes else axes[0] if len(axes) == 1 else tuple(axes) for axes in spec))


def spec_text(name, spec):
    return f"{name}={','.join('+'.join(axes) if axes else 'None' for axes in spec)}"


def save(path, tree, layout):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**LAYOUTS[layout])) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree))


def restore(path):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        return checkpointer.restore(path)


def same(got, want):
    assert got.shape == want.shape and got.dtype == want.dtype
    assert np.asarray(got).tobytes() == np.asarray(want).tobytes()


def listed(path):
    return {entry["name"]: entry for entry in cairn_cli.ls(path)}


@pytest.mark.parametrize("seed", [*range(8), *range(FRESH, FRESH + 8)], ids=lambda n: "fresh" if n >= 8 else str(n))
def test_random_trees_onto_random_meshes(seed, scratch):
    rng = np.random.default_rng([seed, 11])
    arrays = {f"w{i}": draw_array(rng) for i in range(6)}
    old = draw_sizes(rng)
    tree = {name: jax.device_put(a, NamedSharding(mesh_of(old), partition_spec(draw_spec(rng, old, a.ndim)))) for name, a in arrays.items()}
    tree |= {"host": rng.standard_normal((6, 10)), "step": int(rng.integers(100)), "text": "kept"}
    layout, target = rng.choice(list(LAYOUTS), 2)
    save(scratch / "old", tree, layout)

    new = draw_sizes(rng)
    specs = {name: draw_spec(rng, new, a.ndim) for name, a in arrays.items() if rng.random() < 0.8}
    limit = int(rng.choice([0, 64, 1000]))
    options = ["--mesh", ",".join(f"{axis}={n}" for axis, n in new.items())]
    options += itertools.chain(*(["--spec", spec_text(name, spec)] for name, spec in specs.items()))
    options += ["--chunk-bytes", limit] if limit else []
    options += ["--to", target] if rng.random() < 0.7 else []
    report = json.loads(cairn_cli.run("reshard", scratch / "old", scratch / "new", *options, "--json").stdout)
    assert report["format"] == (target if "--to" in options else layout)

    restored = restore(scratch / "new")  # by the shardings that are stored there
    boxes = {entry["name"]: tuple(entry["box"]) for entry in report["arrays"]}
    bytes_of_a_device = 0
    for name, array in arrays.items():
        wanted = NamedSharding(mesh_of(new), partition_spec(specs.get(name, [])))
        same(restored[name], array)
        assert restored[name].sharding.is_equivalent_to(wanted, array.ndim), name
        assert boxes[name] == wanted.shard_shape(array.shape)
        bytes_of_a_device += int(np.prod(boxes[name])) * array.dtype.itemsize
        chunk = listed(scratch / "new")[name]["chunk_shape"]
        assert all(b % c == 0 for b, c in zip(boxes[name], chunk, strict=True)), (boxes[name], chunk)
        assert not limit or int(np.prod(chunk)) * array.dtype.itemsize <= limit
        assert limit or tuple(chunk) == boxes[name]
    assert report["device_bytes"] == bytes_of_a_device
    same(restored["host"], tree["host"])
    assert type(restored["host"]) is np.ndarray and (restored["step"], restored["text"]) == (tree["step"], "kept")
    assert cairn_cli.verify(scratch / "new")["ok"]


@pytest.mark.parametrize("limit", [None, 96])
def test_a_device_reads_chunks_of_its_own_alone(limit, scratch):
    """With every chunk spoilt that is not in its box, a device still restores its part; from the checkpoint as it was it would not."""
    array = np.arange(16 * 24, dtype=np.float32).reshape(16, 24)
    save(scratch / "old", {"w": jax.device_put(array, NamedSharding(mesh_of({"a": 8}), PartitionSpec(None, "a")))}, "orbax-files")
    cairn_cli.run("reshard", scratch / "old", scratch / "new", "--mesh", "x=4,y=2", "--spec", "w=x,y", *(["--chunk-bytes", limit] if limit else []))
    chunk = listed(scratch / "new")["w"]["chunk_shape"]
    stored = {path.name: path.read_bytes() for path in (scratch / "new" / "w").iterdir() if path.name != ".zarray"}
    assert len(stored) == array.size // int(np.prod(chunk))
    sharding = NamedSharding(mesh_of({"x": 4, "y": 2}), PartitionSpec("x", "y"))
    read = set()
    for index in sharding.devices_indices_map(array.shape).values():
        own = {".".join(map(str, key)) for key in itertools.product(*(range(s.start // c, s.stop // c) for s, c in zip(index, chunk)))}
        assert not own & read
        read |= own
        for name, data in stored.items():
            (scratch / "new" / "w" / name).write_bytes(data if name in own else b"spoilt")
        opened = ts.open({"driver": "zarr", "kvstore": {"driver": "file", "path": str(scratch / "new" / "w")}}).result()
        same(opened[index].read().result(), array[index])
        with pytest.raises(ValueError):
            opened.read().result()
    assert read == set(stored)


def test_chunks_alone(scratch):
    """Without a mesh shardings stay; chunks divide what devices hold, and may grow as well as shrink."""
    array = np.arange(64 * 64, dtype=np.float32).reshape(64, 64)
    sharding = NamedSharding(mesh_of({"a": 4}), PartitionSpec("a"))
    tree = {"w": jax.device_put(array, sharding), "host": array}
    save(scratch / "old", tree, "orbax")
    cairn_cli.run("reshard", scratch / "old", scratch / "small", "--chunk-bytes", 256)
    cairn_cli.run("reshard", scratch / "small", scratch / "large", "--chunk-bytes", "1MiB")
    for path, most in [("small", 256), ("large", 1 << 20)]:
        restored = restore(scratch / path)
        same(restored["w"], array)
        same(restored["host"], array)
        assert restored["w"].sharding.is_equivalent_to(sharding, 2)
        for entry in cairn_cli.ls(scratch / path):
            assert int(np.prod(entry["chunk_shape"])) * 4 <= most
    assert listed(scratch / "large")["w"]["chunk_shape"] == [16, 64]
    assert listed(scratch / "large")["host"]["chunk_shape"] == [64, 64]


def test_from_safetensors(scratch):
    import safetensors.numpy

    array = np.arange(8 * 6, dtype=np.float32).reshape(8, 6)
    safetensors.numpy.save_file({"w": array, "b": array[0]}, scratch / "m.safetensors")
    cairn_cli.run("reshard", scratch / "m.safetensors", scratch / "new", "--mesh", "x=4", "--spec", "w=x")
    restored = restore(scratch / "new")
    same(restored["w"], array)
    assert [s.data.shape for s in restored["w"].addressable_shards] == [(2, 6)] * 4
    assert type(restored["b"]) is np.ndarray
