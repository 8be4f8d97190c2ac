#!/usr/bin/env python3
"""Writes the golden Orbax checkpoints beside this script with the real orbax-checkpoint.

    python tests/golden/orbax/make_golden.py [case ...]     (all cases if none is named)

Each case becomes orbax-<version>/<case>/ and orbax-<version>/<case>.expected.json:
    {"views": [{"path": what to open, below the case's folder,
                "step", "item": choices to make when opening; absent where none is needed,
                "refused": true if it must not open without asking for uncommitted checkpoints,
                "leaves": [{name, path, kind, dtype, shape, sha256 | value}, ...]}]}
Expected values come from the trees that were saved, never from a reader. The demo checkpoint is written to demo/.
Checkpoints hold random database ids and commit times, so running this again gives other bytes with equal meaning.
"""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=8"
os.environ.setdefault("JAX_PLATFORMS", "cpu")
HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "interop"))

import jax
import jax.numpy as jnp
import ml_dtypes
import msgpack
import numpy as np
import orbax.checkpoint as ocp
from etils import epath
from orbax.checkpoint import msgpack_utils
from orbax.checkpoint import v1
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import leaves

# Paths are stored in commit markers, so they must not depend on who runs this.
WORK = pathlib.Path(tempfile.gettempdir()) / "cairn-golden"
OUT = HERE / f"orbax-{ocp.__version__}"
CASES = {}
State = collections.namedtuple("State", ["mu", "nu", "count"])


def case(function):
    CASES[function.__name__] = function
    return function


def view(tree, path="", **choices):
    return {"path": path, **choices, "leaves": leaves.records(tree)}


def rng(seed):
    return np.random.default_rng(seed)


def all_dtypes():
    names = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32",
             "float64", "complex64", "complex128", "bfloat16", "int2", "int4", "float8_e3m4", "float8_e4m3fn",
             "float8_e4m3fnuz", "float8_e4m3b11fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn"]
    return [np.dtype(getattr(ml_dtypes, name, name)) for name in names]


def typed(dtype, shape, seed=0):
    """Small values that every type can tell apart, signs and fractions included."""
    values = rng(seed).integers(-4, 4, size=shape).astype(np.float64) / 2
    if dtype.kind == "c":
        values = values + 1j * values[..., ::-1]
    if dtype == np.bool_:
        return np.asarray(values > 0)
    if dtype.kind == "u" or dtype.name == "float8_e8m0fnu":
        return np.abs(values * 2).astype(dtype)
    return (values if dtype.name.startswith(("float", "bfloat", "complex")) else np.trunc(values)).astype(dtype)


def rich_tree(slashes=True):
    """Every kind of leaf, node and key at least once."""
    r = rng(1)
    nans = np.array([0x7FC00001, 0xFFC12345, 0x7F800000, 0x80000000], np.uint32).view(np.float32)
    tree = {
        "params": {"dense": {"kernel": jnp.asarray(r.standard_normal((12, 20)), jnp.float32),
                             "bias": jnp.asarray(r.standard_normal(20), jnp.bfloat16)},
                   "layers": [{"w": jnp.arange(600, dtype=jnp.float32).reshape(20, 30) + i} for i in range(3)]},
        "opt": (State(mu=jnp.ones((3, 5)), nu=np.arange(7, dtype=np.float64), count=jnp.int32(41)), None),
        "host": np.arange(24, dtype=np.int16).reshape(2, 3, 4),
        "nans": nans,
        "zero_d": jnp.float32(2.5),
        "rank4": np.arange(2 * 3 * 2 * 5, dtype=np.uint8).reshape(2, 3, 2, 5),
        "step": 17, "lr": 0.1, "flag": True, "np_scalar": np.float32(1.25), "negative": -(2**62),
        "name": "a name with \"quotes\", é, \n and 漢字", "empty_string": "",
        "key": jax.random.key(7), "keys": jax.random.split(jax.random.key(3, impl="rbg"), 3),
        "none": None, "empty": {"dict": {}, "list": [], "tuple": ()},
        "odd keys": {"with space": np.int64([1]), "ü漢": np.int64([2]), "it's \"q\"": np.int64([3]), 
                     "UPPER": np.int64([5]), "a%b": np.int64([6]), "tab\t": np.int64([7]), "c": {"10": np.int64([8]), "9": np.int64([9])}},
        "ten": [np.int32(i) for i in range(11)],
    }
    if slashes:  # in a file name TensorStore turns a backslash into a folder, which Orbax then cannot find
        tree["odd keys"] |= {"sl/ash": np.int64([10]), "back\\slash": np.int64([4])}
    return tree


def as_standard(tree):
    """StandardCheckpointHandler makes arrays of NumPy's scalars before it saves."""
    return jax.tree.map(lambda leaf: np.asarray(leaf) if isinstance(leaf, np.generic) else leaf, tree)


def without_strings(tree):
    """StandardCheckpointHandler refuses strings."""
    return {key: value for key, value in tree.items() if not isinstance(value, str)}


def pytree_checkpointer(**options):
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options))


def save_direct(path, tree, save=None, **options):
    with pytree_checkpointer(**options) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree, **(save or {})))


# ---- one tree over the option matrix ----
def matrix_case(name, **options):
    def write(root):
        tree = rich_tree(slashes=options.get("use_ocdbt", True))
        save_direct(root, tree, save={"custom_metadata": {"lr": 0.5, "tags": ["a", None]}}, **options)
        return [view(tree)]

    write.__name__ = name
    return case(write)


matrix_case("direct_ocdbt_zarr2")
matrix_case("direct_ocdbt_zarr3", use_zarr3=True)
matrix_case("direct_ocdbt_zarr2_raw", use_compression=False)
matrix_case("direct_ocdbt_zarr3_raw", use_zarr3=True, use_compression=False)
matrix_case("direct_files_zarr2", use_ocdbt=False)
matrix_case("direct_files_zarr3", use_ocdbt=False, use_zarr3=True)
matrix_case("direct_files_zarr2_raw", use_ocdbt=False, use_compression=False)
matrix_case("direct_files_zarr3_raw", use_ocdbt=False, use_zarr3=True, use_compression=False)


# ---- as small as a checkpoint can be: tests damage every bit of these ----
def tiny_tree():
    """An array too long to be inline in a database, one that is inline, a scalar, a string and an empty node."""
    return {"big": rng(2).integers(0, 256, 1040, dtype=np.uint8), "w": jnp.arange(6.0, dtype=jnp.float32).reshape(2, 3), "n": 3, "s": "text", "e": {}}


def tiny_case(name, **options):
    def write(root):
        save_direct(root, tiny_tree(), **options)
        return [view(tiny_tree())]

    write.__name__ = f"tiny_{name}"
    return case(write)


tiny_case("ocdbt_zarr2")
tiny_case("ocdbt_zarr3", use_zarr3=True)
tiny_case("ocdbt_raw", use_compression=False)
tiny_case("files_zarr2", use_ocdbt=False)
tiny_case("files_zarr3", use_ocdbt=False, use_zarr3=True)
tiny_case("files_raw", use_ocdbt=False, use_compression=False)


@case
def tiny_manager(root):
    write_manager(root, [4], ocp.CheckpointManagerOptions(), lambda m, s: m.save(s, args=ocp.args.PyTreeSave(tiny_tree())))
    return [view(tiny_tree(), step=4)]


@case
def tiny_v1(root):
    v1.save(root, tiny_tree())
    return [view(tiny_tree())]


def dtype_tree():
    return {f"rank{len(shape)}": {dtype.name: typed(dtype, shape, seed=len(shape)) for dtype in all_dtypes()} for shape in [(6,), (3, 4)]}


@case
def dtypes_zarr2(root):
    save_direct(root, dtype_tree())
    return [view(dtype_tree())]


@case
def dtypes_zarr3(root):
    save_direct(root, dtype_tree(), use_zarr3=True)
    return [view(dtype_tree())]


@case
def standard(root):
    tree = without_strings(rich_tree())
    with ocp.StandardCheckpointer() as checkpointer:
        checkpointer.save(root, tree)
    return [view(as_standard(tree))]


@case
def rich_types(root):
    options = ocp.tree.PyTreeMetadataOptions(support_rich_types=True) if hasattr(ocp.tree, "PyTreeMetadataOptions") else None
    if options is None:
        from orbax.checkpoint._src.metadata import tree as tree_metadata
        options = tree_metadata.PyTreeMetadataOptions(support_rich_types=True)
    tree = {"t": (np.arange(3), [State(np.arange(2), None, 3)]), "e": ()}
    save_direct(root, tree, pytree_metadata_options=options)
    return [view(tree)]


@case
def strings_only(root):
    tree = {"a": "one", "b": {"c": "zwei", "d": {}}, "n": None}
    save_direct(root, tree)
    return [view(tree)]


@case
def placeholder(root):
    tree = {"here": np.arange(4), "left out": ..., "also": [..., np.arange(2)]}
    save_direct(root, tree)
    return [view(tree)]


# ---- chunks, shards ----
def mesh(*shape):
    return Mesh(np.array(jax.devices()[: int(np.prod(shape))]).reshape(shape), tuple("xyz"[: len(shape)]))


def sharded_tree():
    m42, m8 = mesh(4, 2), mesh(8)
    r = rng(5)

    def put(shape, spec, m=m42, dtype=np.float32):
        return jax.device_put(r.standard_normal(shape).astype(dtype), NamedSharding(m, P(*spec)))

    return {
        "xy": put((8, 8), ("x", "y")), "x": put((16, 6), ("x", None), dtype=ml_dtypes.bfloat16), "y": put((3, 10), (None, "y")),
        "both": put((16,), (("x", "y"),)), "replicated": put((16, 6), ()), "odd": put((3, 5), ()), "scalar": put((), ()),
        "eight": put((8, 2, 3), ("x",), m8), "rank4": put((4, 2, 3, 2), ("x", "y")),
        "key": jax.device_put(jax.random.split(jax.random.key(1), 8), NamedSharding(m8, P("x"))),
        "host": np.arange(10), "single": jnp.arange(5),
    }


@case
def sharded_zarr2(root):
    save_direct(root, sharded_tree())
    return [view(sharded_tree())]


@case
def sharded_zarr3(root):
    save_direct(root, sharded_tree(), use_zarr3=True)
    return [view(sharded_tree())]


@case
def sharded_files_zarr3(root):
    save_direct(root, sharded_tree(), use_ocdbt=False, use_zarr3=True)
    return [view(sharded_tree())]


def chunk_args(tree, size):
    return jax.tree.map(lambda leaf: ocp.SaveArgs(chunk_byte_size=size), tree)


@case
def chunked_zarr2(root):
    tree = {"a": np.arange(2000, dtype=np.float32).reshape(40, 50), "b": jnp.arange(999.0), "s": sharded_tree()["xy"]}
    save_direct(root, tree, save={"save_args": chunk_args(tree, 256), "ocdbt_target_data_file_size": 2048})
    return [view(tree)]


@case
def chunked_zarr3(root):
    tree = {"a": np.arange(2000, dtype=np.float32).reshape(40, 50), "b": jnp.arange(999.0), "s": sharded_tree()["xy"]}
    save_direct(root, tree, save={"save_args": chunk_args(tree, 512), "ocdbt_target_data_file_size": 0}, use_zarr3=True)
    return [view(tree)]


@case
def cast(root):
    tree = {"a": np.linspace(-3, 3, 24, dtype=np.float32).reshape(4, 6), "i": 7}
    stored = {"a": np.asarray(tree["a"]).astype(ml_dtypes.bfloat16), "i": np.int16(7)}
    save_direct(root, tree, save={"save_args": {"a": ocp.SaveArgs(dtype=np.dtype(ml_dtypes.bfloat16)), "i": ocp.SaveArgs(dtype=np.dtype(np.int16))}})
    return [view(stored)]


# ---- composites and managers ----
def small_tree(seed=0):
    r = rng(seed)
    return {"w": jnp.asarray(r.standard_normal((4, 6)), jnp.float32), "b": np.arange(6, dtype=np.int32) + seed, "step": seed, "tag": f"s{seed}"}


@case
def composite(root):
    handlers = {"state": ocp.StandardCheckpointHandler(), "params": ocp.PyTreeCheckpointHandler(use_zarr3=True), "config": ocp.JsonCheckpointHandler(),
                "array": ocp.ArrayCheckpointHandler(), "jax_key": ocp.JaxRandomKeyCheckpointHandler(), "np_key": ocp.NumpyRandomKeyCheckpointHandler()}
    state, params = without_strings(small_tree(3)), {"only": {"here": jnp.arange(5)}, "w": np.ones((2, 2))}
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler(**handlers)) as checkpointer:
        checkpointer.save(root, args=ocp.args.Composite(
            state=ocp.args.StandardSave(state), params=ocp.args.PyTreeSave(params), config=ocp.args.JsonSave({"layers": 2, "name": "ü"}),
            array=ocp.args.ArraySave(np.arange(6, dtype=np.float32)), jax_key=ocp.args.JaxRandomKeySave(jax.random.key(5)),
            np_key=ocp.args.NumpyRandomKeySave(np.random.get_state())))
    return [view(state, item="state"), view(params, item="params"), view({"checkpoint": np.arange(6, dtype=np.float32)}, item="array")]


@case
def composite_one_item(root):
    state = without_strings(small_tree(4))
    with ocp.Checkpointer(ocp.CompositeCheckpointHandler()) as checkpointer:
        checkpointer.save(root, args=ocp.args.Composite(state=ocp.args.StandardSave(state), config=ocp.args.JsonSave({"layers": 2})))
    return [view(state), view(state, item="state")]


def write_manager(root, steps, options, save_step, **kwargs):
    with ocp.CheckpointManager(root, options=options, **kwargs) as manager:
        for step in steps:
            save_step(manager, step)
            manager.wait_until_finished()


@case
def manager(root):
    options = ocp.CheckpointManagerOptions(best_fn=lambda m: m["acc"])
    write_manager(root, [1, 2, 10], options, lambda m, s: m.save(s, args=ocp.args.PyTreeSave(small_tree(s)), metrics={"acc": s / 10}),
                  metadata={"lang": "en"})
    return [view(small_tree(10))] + [view(small_tree(s), step=s) for s in (1, 2, 10)] + [view(small_tree(2), path="2")]


@case
def manager_prefix(root):
    options = ocp.CheckpointManagerOptions(step_prefix="run", step_format_fixed_length=5)
    write_manager(root, [7, 123], options, lambda m, s: m.save(s, args=ocp.args.Composite(
        state=ocp.args.PyTreeSave(small_tree(s)), data=ocp.args.JsonSave({"epoch": s}))))
    return [view(small_tree(123)), view(small_tree(7), step=7)]


# ---- version 1 of the API ----
@case
def v1_save(root):
    tree = rich_tree()
    tree.pop("np_scalar")  # version 1 has no handler for NumPy scalars
    tree["ten"] = [np.asarray(x) for x in tree["ten"]]
    v1.save(root, tree, custom_metadata={"note": "v1"})
    return [view(tree)]


@case
def v1_bare_leaf(root):
    v1.save(root, jnp.arange(5.0))
    return [view(jnp.arange(5.0))]


@case
def v1_checkpointables(root):
    v1.save_checkpointables(root, {"state": small_tree(5), "ema": {"w": np.ones(3)}})
    return [view(small_tree(5), item="state"), view({"w": np.ones(3)}, item="ema")]


@case
def v1_training(root):
    with v1.training.Checkpointer(root) as checkpointer:
        for step in (0, 3):
            checkpointer.save(step, small_tree(step), metrics={"loss": 1.5})
    return [view(small_tree(3)), view(small_tree(0), step=0)]


@case
def v1_partial(root):
    v1.partial.save(root, {"a": jnp.arange(4)})
    v1.partial.save(root, {"b": {"c": jnp.arange(300.0)}})
    v1.partial.finalize(root)
    return [view({"a": jnp.arange(4), "b": {"c": jnp.arange(300.0)}})]


# ---- two processes ----
def two_process_case(variant):
    def write(root):
        script = HERE.parents[1] / "interop" / "multiprocess" / "two_process.py"
        subprocess.run([sys.executable, script, "--root", root.parent / "pair", "--only", variant], check=True)
        shutil.move(root.parent / "pair" / variant, root)
        expected = json.loads((root.parent / "pair" / "expected.json").read_text())
        return [{"path": "", "leaves": expected[variant]}]

    write.__name__ = f"two_process_{variant}"
    return case(write)


for _variant in ("ocdbt_zarr2", "ocdbt_zarr3", "files_zarr2", "files_zarr3", "replica_folders"):
    two_process_case(_variant)


# ---- older writers; 0.12.8 does not write these, so its own parts are put together as it reads them ----
@case
def old_metadata(root):
    """As before 0.11.31: no use_ocdbt, write shapes, array metadata, commit marker or checkpoint metadata."""
    save_direct(root, small_tree(6))
    meta = json.loads((root / "_METADATA").read_text())
    for key in ("use_ocdbt", "store_array_data_equal_to_fill_value", "custom_metadata"):
        meta.pop(key)
    for entry in meta["tree_metadata"].values():
        entry["value_metadata"].pop("write_shape", None)
    (root / "_METADATA").write_text(json.dumps(meta))
    shutil.rmtree(root / "array_metadatas")
    for name in ("commit_success.txt", "_CHECKPOINT_METADATA"):
        (root / name).unlink()
    return [view(small_tree(6))]


def strip_metadata(root):
    for name in ("_METADATA", "_CHECKPOINT_METADATA", "commit_success.txt", "_sharding"):
        (root / name).unlink(missing_ok=True)
    shutil.rmtree(root / "array_metadatas", ignore_errors=True)


def unknown_types(tree):
    """What can be known when types are not recorded: names, element types, shapes and bytes."""
    found = leaves.records(tree)
    for record in found:
        record.pop("kind")
        record.pop("path")
    return found


@case
def no_metadata_ocdbt(root):
    tree = {"a": {"b": np.arange(6.0)}, "c": [np.int32([1, 2]), np.ones((2, 3), ml_dtypes.bfloat16)]}
    save_direct(root, tree)
    strip_metadata(root)
    return [{"path": "", "leaves": unknown_types(tree)}]


@case
def no_metadata_files(root):
    tree = {"a": {"b": np.arange(6.0)}, "c": [np.int32([1, 2]), np.ones((2, 3), ml_dtypes.bfloat16)]}
    save_direct(root, tree, use_ocdbt=False)
    strip_metadata(root)
    return [{"path": "", "leaves": unknown_types(tree)}]


def legacy_aggregate(root, prefix, **options):
    """Before 0.5.16: a msgpack file named `checkpoint` holds small values and placeholders for stored arrays."""
    stored = {"w": jnp.arange(12.0).reshape(3, 4), "layers": {"0": {"k": np.arange(5, dtype=np.int16)}}}
    save_direct(root, stored, **options)
    strip_metadata(root)
    inside = {"step": np.asarray(9), "lr": np.float32(0.25), "small": np.arange(3, dtype=np.uint8), "none": None, "e": {}, "text": "hi",
              "bf": np.ones(2, ml_dtypes.bfloat16)}
    names = {"w": f"{prefix}://w", "layers": {"0": {"k": f"{prefix}://layers.0.k"}}}
    (root / "checkpoint").write_bytes(msgpack_utils.msgpack_serialize(names | inside))
    found = unknown_types(stored | inside)
    return [{"path": "", "leaves": sorted(found, key=lambda record: record["name"])}]


@case
def legacy_files(root):
    return legacy_aggregate(root, "PLACEHOLDER", use_ocdbt=False)


@case
def legacy_ocdbt(root):
    return legacy_aggregate(root, "AGGREGATED")


@case
def legacy_all_inside(root):
    root.mkdir()
    tree = {"params": {"w": np.arange(6, dtype=np.float32).reshape(2, 3)}, "step": np.asarray(3)}
    (root / "checkpoint").write_bytes(msgpack_utils.msgpack_serialize(tree))
    return [{"path": "", "leaves": unknown_types(tree)}]


# ---- not finished ----
@case
def uncommitted(root):
    """A manager that died while writing step 2: step 1 is whole, step 2 has a temporary name at both levels."""
    write_manager(root, [1, 2], ocp.CheckpointManagerOptions(), lambda m, s: m.save(s, args=ocp.args.PyTreeSave(small_tree(s))))
    temporary = root / "2.orbax-checkpoint-tmp"
    (root / "2").rename(temporary)
    (temporary / "default").rename(temporary / "default.orbax-checkpoint-tmp")
    for path in list(temporary.rglob("commit_success.txt")):
        path.unlink()
    meta = json.loads((temporary / "_CHECKPOINT_METADATA").read_text())
    meta["commit_timestamp_nsecs"] = None
    (temporary / "_CHECKPOINT_METADATA").write_text(json.dumps(meta))
    return [view(small_tree(1)), view(small_tree(2), path=temporary.name, refused=True)]


@case
def uncommitted_direct(root):
    """A direct checkpoint whose writer died before the per-process database was merged."""
    root.mkdir()
    temporary = root / "ckpt.orbax-checkpoint-tmp"
    tree = {"w": np.arange(4.0)}
    save_direct(root / "ckpt", tree)
    (root / "ckpt").rename(temporary)
    shutil.rmtree(temporary / "d")
    (temporary / "manifest.ocdbt").unlink()
    (temporary / "commit_success.txt").unlink()
    return [view(tree, path=temporary.name, refused=True)]


def demo_tree(step):
    """A small transformer's parameters and Adam state, as a training script would save them."""
    r = rng(step)

    def dense(rows, columns):
        return {"kernel": jnp.asarray(r.standard_normal((rows, columns)) / np.sqrt(rows), jnp.bfloat16)}

    def layer():
        return {"attention": {"query_key_value": dense(48, 144), "out": dense(48, 48)},
                "mlp": {"up": dense(48, 128), "down": dense(128, 48)}, "norm": {"scale": jnp.ones(48)}}

    params = {"embedding": jnp.asarray(r.standard_normal((256, 48)) * 0.02, jnp.float32), "layers": [layer() for _ in range(2)],
              "final_norm": {"scale": jnp.ones(48)}}
    moments = jax.tree.map(lambda p: jnp.asarray(r.standard_normal(p.shape) * 1e-3, jnp.float32), params["layers"][0]["attention"])
    return {"params": params, "opt_state": (State(mu=moments, nu=jax.tree.map(jnp.square, moments), count=jnp.int32(step)), None),
            "rng": jax.random.key(step), "step": step, "learning_rate": 3e-4, "model": "demo-transformer"}


def write_demo(root):
    write_manager(root, [100, 200], ocp.CheckpointManagerOptions(best_fn=lambda m: -m["loss"]),
                  lambda m, s: m.save(s, args=ocp.args.PyTreeSave(demo_tree(s)), metrics={"loss": 300 / s}))
    return [view(demo_tree(200))] + [view(demo_tree(s), step=s) for s in (100, 200)]


def build(name, function, target):
    root = WORK / name
    views = function(root)
    if target.exists():
        shutil.rmtree(target)
    shutil.copytree(root, target)
    text = json.dumps({"views": views}, indent=1, ensure_ascii=False)
    target.with_name(target.name + ".expected.json").write_text(text + "\n")
    print(f"{name}: {sum(len(v['leaves']) for v in views)} leaves, {sum(f.stat().st_size for f in target.rglob('*') if f.is_file())} bytes")


def main(names):
    jax.config.update("jax_enable_x64", True)
    shutil.rmtree(WORK, ignore_errors=True)
    WORK.mkdir(parents=True)
    for name, function in CASES.items():
        if not names or name in names:
            build(name, function, OUT / name)
    if not names or "demo" in names:
        build("demo", write_demo, HERE / "demo")
    shutil.rmtree(WORK)


if __name__ == "__main__":
    main(sys.argv[1:])
