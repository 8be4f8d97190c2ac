"""What Cairn saves, the real Orbax restores: every way it has, every layout, the same structure, types and bytes.

Trees come into Cairn from checkpoints that Orbax wrote; `cairn convert` saves them again in another layout.
"""

import contextlib
import itertools
import json
import os
import subprocess

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
import tensorstore as ts
import zarr

import cairn_cli
import leaves
import random_trees
import tree_json

FORMATS = ["orbax", "orbax-zarr3", "orbax-files"]
COMPRESSIONS = ["auto", "none", "zstd:3", "blosc"]
COMBINATIONS = list(itertools.product(FORMATS, COMPRESSIONS, (True, False)))
SEEDS = [*range(7000, 7000 + 8 * len(COMBINATIONS)), *(int(os.environ["CAIRN_SEED"]) + i for i in range(len(COMBINATIONS)))]


class Case:
    """How one tree is saved by Cairn."""

    def __init__(self, seed):
        self.form, self.compression, self.as_item = COMBINATIONS[seed % len(COMBINATIONS)]
        rng = np.random.default_rng([seed, 7])
        self.plan = random_trees.Plan.draw(seed, "direct", self.form != "orbax-files", bool(seed % 2), bool(seed // 2 % 2))
        self.chunk_bytes = rng.choice([None, None, 100, 4000])
        self.file_bytes = rng.choice([None, None, 3000])

    def save(self, source, target):
        options = ["--to", self.form, "--compression", self.compression]
        options += ["--chunk-bytes", self.chunk_bytes] if self.chunk_bytes else []
        options += ["--target-file-bytes", self.file_bytes] if self.file_bytes and self.form != "orbax-files" else []
        options += ["--as-item", "default"] if self.as_item else []
        cairn_cli.run("convert", source, target, *options)
        return target / "default" if self.as_item else target


def same(got, want):
    """Asserts that two restored trees have the same structure and, leaf by leaf, the same type, shape and bytes."""
    got_leaves, got_form = jax.tree_util.tree_flatten(got)
    want_leaves, want_form = jax.tree_util.tree_flatten(want)
    assert got_form == want_form
    for a, b in zip(got_leaves, want_leaves):
        assert type(a) is type(b)
        if isinstance(b, jax.Array) and jax.dtypes.issubdtype(b.dtype, jax.dtypes.prng_key):
            assert a.dtype == b.dtype
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        if isinstance(b, jax.Array):
            assert a.sharding == b.sharding
        if isinstance(b, (str, type(...))):
            assert a == b
        else:
            x, y = np.asarray(a), np.asarray(b)
            assert (x.dtype, x.shape) == (y.dtype, y.shape)
            assert leaves.raw_bytes(x) == leaves.raw_bytes(y)


def restore(path, **arguments):
    return ocp.PyTreeCheckpointHandler().restore(path, args=ocp.args.PyTreeRestore(**arguments))


def numpy_arguments(tree):
    """As a host array whatever is one. Not from `metadata()`, which fails for placeholders."""
    return jax.tree.map(lambda leaf: ocp.RestoreArgs(restore_type=np.ndarray) if isinstance(leaf, (np.ndarray, jax.Array)) else ocp.RestoreArgs(), tree)


@pytest.mark.covers("type_handlers.NumpyHandler", "pytree.PyTreeCheckpointHandler.save")
@pytest.mark.parametrize("seed", SEEDS)
def test_random_tree(seed, scratch):
    case = Case(seed)
    tree = random_trees.random_tree(case.plan)
    random_trees.save(scratch / "source", tree, case.plan)
    item = case.save(scratch / "source", scratch / "saved")
    wanted = restore(scratch / "source")
    same(restore(item), wanted)
    as_numpy = numpy_arguments(wanted)
    same(restore(item, restore_args=as_numpy), restore(scratch / "source", restore_args=as_numpy))
    cairn_cli.check(item, leaves.leaves(tree))
    cairn_cli.verify(scratch / "saved")


# ---- every way in which Orbax restores ----
def mixed_tree():
    mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    spread = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("x", "y"))
    rng = np.random.default_rng(11)
    return {"params": {"w": jax.device_put(rng.standard_normal((16, 8), np.float32), spread), "b": jax.numpy.arange(8, dtype=jax.numpy.bfloat16)},
            "opt": [rng.standard_normal((3, 5)), {"count": np.arange(4)}]}


@pytest.fixture(scope="module", params=FORMATS)
def mixed(request, tmp_path_factory):
    """The tree, the format, and the checkpoint that Orbax wrote of it."""
    path = tmp_path_factory.mktemp("mixed") / "source"
    tree = mixed_tree()
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree))
    return tree, request.param, path


def abstract(tree):
    return jax.tree.map(lambda leaf: ocp.utils.to_shape_dtype_struct(leaf) if isinstance(leaf, jax.Array) else leaf, tree)


def test_standard_checkpointer(mixed, scratch):
    tree, form, source = mixed
    cairn_cli.run("convert", source, scratch / "saved", "--to", form)
    with ocp.StandardCheckpointer() as checkpointer:
        same(checkpointer.restore(scratch / "saved", abstract(tree)), tree)
        described = checkpointer.metadata(scratch / "saved").item_metadata
    assert [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(described)] == [(leaf.shape, leaf.dtype) for leaf in jax.tree.leaves(tree)]


def test_restore_into_another_sharding(mixed, scratch):
    tree, form, source = mixed
    cairn_cli.run("convert", source, scratch / "saved", "--to", form, "--chunk-bytes", 64)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), ("all",))
    other = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(None, "all"))
    target = abstract(tree)
    target["params"]["w"] = jax.ShapeDtypeStruct((16, 8), np.float32, sharding=other)
    with ocp.StandardCheckpointer() as checkpointer:
        restored = checkpointer.restore(scratch / "saved", target)
    assert restored["params"]["w"].sharding == other
    assert leaves.raw_bytes(restored["params"]["w"]) == leaves.raw_bytes(tree["params"]["w"])


def test_checkpoint_manager(mixed, scratch):
    tree, form, source = mixed
    for step in (3, 12):
        cairn_cli.run("convert", source, scratch / "root" / str(step), "--to", form, "--as-item", "default")
    with ocp.CheckpointManager(scratch / "root") as manager:
        assert manager.all_steps() == [3, 12]
        same(manager.restore(12, args=ocp.args.StandardRestore(abstract(tree))), tree)
    with ocp.CheckpointManager(scratch / "root") as manager:
        same(manager.restore(3, args=ocp.args.PyTreeRestore()), tree)
    with ocp.CheckpointManager(scratch / "root", item_handlers=ocp.StandardCheckpointHandler()) as manager:
        same(manager.restore(None), tree)


def test_version_1(mixed, scratch):
    from orbax.checkpoint import v1

    tree, form, source = mixed
    cairn_cli.run("convert", source, scratch / "direct", "--to", form)
    same(v1.load(scratch / "direct"), tree)
    same(v1.load(scratch / "direct", abstract(tree)), tree)
    cairn_cli.run("convert", source, scratch / "composite", "--to", form, "--as-item", "state")
    same(v1.load(scratch / "composite"), tree)


def test_safetensors_come_back_the_same(scratch):
    import safetensors.numpy

    rng = np.random.default_rng(5)
    tree = {f"model.layers.{i}.{name}": rng.standard_normal(shape).astype(np.float32) for i in range(3) for name, shape in (("w", (7, 5)), ("b", (7,)), ("scale", ()))}
    safetensors.numpy.save_file(tree | {"empty": np.zeros((0, 3), np.int16)}, scratch / "model.safetensors")
    for form in FORMATS:
        cairn_cli.run("convert", scratch / "model.safetensors", scratch / form, "--to", form)
        cairn_cli.run("convert", scratch / form, scratch / f"{form}.safetensors")
        assert (scratch / f"{form}.safetensors").read_bytes() == (scratch / "model.safetensors").read_bytes()
        restored = ocp.PyTreeCheckpointHandler().restore(scratch / form)
        assert sorted(restored) == sorted(tree | {"empty": 0})
        for name, array in tree.items():
            assert leaves.raw_bytes(restored[name]) == leaves.raw_bytes(array)


# ---- no wrong byte passes the real readers ----
def notices(path, file, bit, tree):
    """Whether the real Orbax raises when one bit of a file is flipped; else what it restores must be right."""
    data = bytearray(file.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)
    try:
        restored = ocp.PyTreeCheckpointHandler().restore(path)
    except ValueError:
        return True
    finally:
        data[bit // 8] ^= 1 << bit % 8
        file.write_bytes(data)
    wrong = [name for name, array in tree.items() if leaves.raw_bytes(restored[name]) != leaves.raw_bytes(array)]
    assert not wrong, f"bit {bit} of {file}: Orbax restored wrong bytes of {wrong} without a word"
    return False


def value_files(path, tree):
    """Those with values too large to be inline in a database."""
    files = [file for file in path.rglob("*") if file.is_file() and (file.parent.name == "d" or path / file.relative_to(path).parts[0] in [path / name for name in tree])]
    return [file for file in files if file.stat().st_size > 3000]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("form", FORMATS)
def test_orbax_notices_every_flipped_bit_of_values(form, scratch):
    """Values that compress and values that do not; 100 bits at random places, every one noticed by unmodified Orbax."""
    rng = np.random.default_rng(3)
    tree = {"noise": rng.standard_normal((64, 64)).astype(np.float32), "ramp": np.arange(30000, dtype=np.int32), "half": rng.standard_normal((256, 64)).astype(np.float16)}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "source", args=ocp.args.PyTreeSave(tree))
    cairn_cli.run("convert", scratch / "source", scratch / "saved", "--to", form)
    files = value_files(scratch / "saved", tree)
    sizes = np.array([file.stat().st_size for file in files], float)
    chosen = [files[i] for i in rng.choice(len(files), 100, p=sizes / sizes.sum())]
    assert sum(notices(scratch / "saved", file, int(rng.integers(8 * file.stat().st_size)), tree) for file in chosen) == 100


CRC32C = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]


def save_zarr3(path, tree, ocdbt):
    """Saves arrays in memory: a conversion, which reads them while it writes, keeps zstd."""
    jobs = [{"op": "save_checkpoint", "dir": str(path), "options": {"use_ocdbt": ocdbt, "use_zarr3": True}, "item": tree_json.to_json(tree)}]
    done = subprocess.run([cairn_cli.TOOLS / "pytree_tool"], input=json.dumps(jobs), capture_output=True, text=True, timeout=300)
    assert done.stdout and json.loads(done.stdout) == [{"done": True}], done


def kvstore(path, name, ocdbt):
    return {"driver": "ocdbt", "base": f"file://{path}/", "path": f"{name}/"} if ocdbt else {"driver": "file", "path": f"{path}/{name}/"}


def noise_and_scalar():
    rng = np.random.default_rng(5)
    return {"noise": rng.standard_normal((64, 64)).astype(np.float32), "bytes": rng.integers(0, 256, (3, 7001), np.uint8), "scalar": np.array(2.5, np.float32)}


@pytest.mark.parametrize("ocdbt", [True, False], ids=["ocdbt", "files"])
def test_arrays_with_a_crc32c_are_those_that_tensorstore_writes(ocdbt, scratch):
    """Arrays that do not shrink: TensorStore makes the same bytes of the same metadata; zarr-python reads them; those that shrink or are small keep zstd."""
    tree = noise_and_scalar() | {"ramp": np.arange(30000, dtype=np.int32)}
    save_zarr3(scratch / "saved", tree, ocdbt)
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        same(checkpointer.restore(scratch / "saved"), tree)
    for name, array in tree.items():
        stored = ts.KvStore.open(kvstore(scratch / "saved", name, ocdbt)).result()
        metadata = json.loads(stored["zarr.json"])
        inner = metadata["codecs"][0]["configuration"]["codecs"]
        if name in ("ramp", "scalar"):
            assert inner[-1]["name"] == "zstd"
            continue
        assert inner == ([{"name": "bytes"}, *CRC32C[1:]] if array.dtype.itemsize == 1 else CRC32C)
        spec = {"driver": "zarr3", "kvstore": kvstore(scratch / "again", name, ocdbt), "metadata": metadata, "create": True}
        ts.open(spec).result().write(array).result()
        again = ts.KvStore.open(kvstore(scratch / "again", name, ocdbt)).result()
        assert sorted(stored.list().result()) == sorted(again.list().result())
        for key in stored.list().result():
            assert stored[key] == again[key], (name, key)
        if not ocdbt:
            assert zarr.open_array(scratch / "saved" / name, mode="r")[...].tobytes() == array.tobytes()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("ocdbt", [True, False], ids=["ocdbt", "files"])
def test_orbax_and_tensorstore_notice_every_flipped_bit_behind_a_crc32c(ocdbt, scratch):
    """100 bits at random places of the stored values."""
    rng = np.random.default_rng(6)
    tree = noise_and_scalar()
    path = scratch / "saved"
    save_zarr3(path, tree, ocdbt)
    files = value_files(path, tree)
    sizes = np.array([file.stat().st_size for file in files], float)
    assert sizes.sum() >= tree["noise"].nbytes + tree["bytes"].nbytes
    for _ in range(100):
        file = files[rng.choice(len(files), p=sizes / sizes.sum())]
        bit = int(rng.integers(8 * file.stat().st_size))
        assert notices(path, file, bit, tree), (file, bit)
        assert cairn_notices(path, file, bit), (file, bit)
    for _ in range(100):
        chunk = next(file for file in files if tree["noise"].tobytes() in file.read_bytes())
        begin = chunk.read_bytes().index(tree["noise"].tobytes())
        assert tensorstore_notices(path, "noise", ocdbt, chunk, 8 * begin + int(rng.integers(8 * (tree["noise"].nbytes + 4))))


@contextlib.contextmanager
def flipped(file, bit):
    good = file.read_bytes()
    data = bytearray(good)
    data[bit // 8] ^= 1 << bit % 8
    file.write_bytes(data)
    yield
    file.write_bytes(good)


def cairn_notices(path, file, bit):
    with flipped(file, bit):
        return cairn_cli.call("verify", path).returncode != 0


def tensorstore_notices(path, name, ocdbt, file, bit):
    with flipped(file, bit):
        array = ts.open({"driver": "zarr3", "kvstore": kvstore(path, name, ocdbt)}).result()
        try:
            array.read().result()
        except ValueError as error:
            return "Digest mismatch" in str(error)
    return False


def test_orbax_and_tensorstore_read_nodes_that_are_not_compressed(tmp_path):
    """Without compression, small values lie in nodes of the database, which zstd would not shrink."""
    rng = np.random.default_rng(int(os.environ["CAIRN_SEED"]))
    tree = {f"w{i:04}": rng.standard_normal(256, dtype=np.float32) for i in range(600)}
    np.savez(tmp_path / "tree.npz", **tree)
    saved = tmp_path / "saved"
    cairn_cli.run("convert", tmp_path / "tree.npz", saved, "--to", "orbax", "--compression", "none")
    nodes = b"".join(file.read_bytes() for file in (saved / "d").iterdir())
    assert all(array.tobytes() in nodes for array in tree.values())
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        same(checkpointer.restore(saved), tree)
    store = ts.KvStore.open({"driver": "ocdbt", "base": f"file://{saved}/"}).result()
    store.write("w0300/0", tree["w0000"].tobytes()).result()  # rewrites the node
    tree["w0300"] = tree["w0000"]
    cairn_cli.run("convert", saved, tmp_path / "back.npz", "--to", "npz")
    same(dict(np.load(tmp_path / "back.npz")), tree)


@pytest.mark.parametrize("form", FORMATS)
def test_large_arrays_are_cut_into_runs(form, scratch):
    """Chunks of at most 16 MiB along the leading dimensions, with noise and with what compresses; Orbax and TensorStore read the same bytes."""
    import safetensors.numpy

    rng = np.random.default_rng(6)
    tree = {"noise": rng.integers(0, 1 << 16, (4, 3000, 3001), np.uint16), "even": np.repeat(np.arange(9 << 10, dtype=np.int32), 2048).reshape(9 << 10, 2048),
            "prime": np.arange(16_777_259, dtype=np.float32),
            "twice": np.arange(4 * 4_999_999, dtype=np.float32).reshape(-1, 1)}  # 2 * 40 MB: no chunks of 16 MiB
    chunks = {"noise": [1, 1500, 3001], "even": [1536, 2048], "prime": [16_777_259], "twice": [2 * 4_999_999, 1]}
    safetensors.numpy.save_file(tree, scratch / "model.safetensors")
    cairn_cli.run("convert", scratch / "model.safetensors", scratch / "saved", "--to", form)
    cairn_cli.verify(scratch / "saved")
    got = restore(scratch / "saved", restore_args=jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), tree))
    base = {"driver": "file", "path": str(scratch / "saved") + "/"}
    for name, array in tree.items():
        assert got[name].dtype == array.dtype and np.array_equal(got[name].view(np.uint8), array.view(np.uint8))
        store = base | {"path": f"{base['path']}{name}/"} if form == "orbax-files" else {"driver": "ocdbt", "base": base, "path": f"{name}/"}
        opened = ts.open({"driver": "zarr3" if form == "orbax-zarr3" else "zarr", "kvstore": store}).result()
        assert list(opened.chunk_layout.write_chunk.shape) == chunks[name]
        assert np.array_equal(opened.read().result().view(np.uint8), array.view(np.uint8))
