"""`cairn convert --to msgpack`: the bytes that flax or Orbax would have written, and every command on msgpack files."""

import collections
import json
import subprocess
import sys

import flax.serialization
import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
import safetensors.numpy
from orbax.checkpoint import msgpack_utils

import cairn_cli
import random_trees

Pair = collections.namedtuple("Pair", ["first", "second"])


def without(tree, unwanted):
    """The tree with zeros in place of unwanted leaves."""
    return jax.tree.map(lambda leaf: 0 if unwanted(leaf) else leaf, tree, is_leaf=lambda leaf: leaf is ...)


def sorted_state(tree):
    return flax.serialization.msgpack_serialize(flax.serialization.to_state_dict(tree))


@pytest.mark.parametrize("plan", random_trees.Plan.matrix(4100, 1)[:20], ids=str)
def test_orbax_checkpoints(scratch, plan):
    """The same bytes as Orbax's restore and flax's or Orbax's serialize, one after the other."""
    # Typed keys cannot be serialized by either; placeholders have no value.
    tree = without(random_trees.random_tree(plan), lambda leaf: leaf is ... or random_trees.is_key(leaf))
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=plan.ocdbt, use_zarr3=plan.zarr3)) as checkpointer:
        checkpointer.save(scratch / "ckpt", args=ocp.args.PyTreeSave(tree))
        restored = checkpointer.restore(scratch / "ckpt")
    restored = jax.tree.map(lambda leaf: np.asarray(leaf) if isinstance(leaf, jax.Array) else leaf, restored)
    for dialect, serialize in (("flax", sorted_state), ("orbax", msgpack_utils.msgpack_serialize)):
        target = scratch / f"{dialect}.msgpack"
        cairn_cli.run("convert", scratch / "ckpt", target, "--dialect", dialect, "--memory", "8MiB")
        assert target.read_bytes() == serialize(restored)
    cairn_cli.run("diff", scratch / "ckpt", scratch / "orbax.msgpack", "--ignore-dtype")
    assert flax.serialization.msgpack_restore((scratch / "flax.msgpack").read_bytes()).keys() == tree.keys()


def state():
    rng = np.random.default_rng(3)
    return {"params": {"w": rng.standard_normal((40, 50)).astype(np.float32), "b": jnp.ones(7, jnp.bfloat16)}, "opt": (Pair(np.arange(5), ()), [np.float32(2.5), 3]), "z": 1 + 2j,
            "raw": b"\0\xff", "name": "ünï", "none": None, "empty": {}, "big": 2**64 - 1, "int8": np.int8(-3), "flag": True}


def test_flax_restores_any_state(scratch):
    (scratch / "orbax.msgpack").write_bytes(msgpack_utils.msgpack_serialize(state()))
    cairn_cli.run("convert", scratch / "orbax.msgpack", scratch / "flax.msgpack")
    encoded = (scratch / "flax.msgpack").read_bytes()
    # Orbax's file says tuple where there was a named one.
    plain = state() | {"opt": ((np.arange(5), ()), [np.float32(2.5), 3])}
    assert encoded == sorted_state(plain)
    restored = flax.serialization.from_bytes(plain, encoded)
    assert msgpack_utils.msgpack_serialize(restored) == msgpack_utils.msgpack_serialize(plain)
    # And back again, everything as it was, except that dicts stay dicts.
    cairn_cli.run("convert", scratch / "orbax.msgpack", scratch / "same.msgpack", "--dialect", "orbax")
    assert (scratch / "same.msgpack").read_bytes() == (scratch / "orbax.msgpack").read_bytes()
    cairn_cli.run("diff", "--strict", scratch / "orbax.msgpack", scratch / "same.msgpack")


def test_every_command_knows_every_kind(scratch):
    path = scratch / "a.msgpack"
    path.write_bytes(msgpack_utils.msgpack_serialize(state()))
    listed = {entry["name"]: (entry["kind"], entry["dtype"], entry["shape"]) for entry in cairn_cli.ls(path)}
    assert listed == {"params.w": ("np.ndarray", "float32", [40, 50]), "params.b": ("np.ndarray", "bfloat16", [7]), "opt.0.0": ("np.ndarray", "int64", [5]), "opt.0.1": ("Tuple", None, None),
                      "opt.1.0": ("np.generic", "float32", []), "opt.1.1": ("scalar", "int64", []), "z": ("complex", "complex128", []), "raw": ("bytes", "uint8", [2]),
                      "name": ("string", "string", None), "none": ("None", None, None), "empty": ("Dict", None, None), "big": ("scalar", "uint64", []), "int8": ("np.generic", "int8", []),
                      "flag": ("scalar", "bool", [])}
    info = json.loads(cairn_cli.run("info", "--json", path).stdout)
    assert (info["format"], info["arrays"], info["strings"], info["empty"]) == ("msgpack", 10, 1, 3)
    assert cairn_cli.run("cat", path, "z").stdout.decode() == "1.+2.j\n" and cairn_cli.run("cat", path, "int8").stdout == b"-3\n"
    assert cairn_cli.cat(path, "raw") == b"\0\xff" and cairn_cli.cat(path, "big") == b"\xff" * 8
    stats = {entry["name"]: entry for entry in json.loads(cairn_cli.run("stats", "--json", path).stdout)}
    assert stats["opt.1.0"]["max"] == 2.5 and abs(stats["z"]["max"] - 5**0.5) < 1e-12 and stats["big"]["max"] == float(2**64 - 1)
    assert cairn_cli.verify(path)["findings"] == []
    assert "float32 () NumPy scalar" in cairn_cli.run("tree", path).stdout.decode()
    other = state() | {"z": 1 + 3j, "int8": -3}
    (scratch / "b.msgpack").write_bytes(msgpack_utils.msgpack_serialize(other))
    report = json.loads(cairn_cli.run("diff", "--json", "--strict", path, scratch / "b.msgpack", status=cairn_cli.NO).stdout)
    assert {leaf["name"]: leaf["differs"] for leaf in report["leaves"]} == {"z": ["values"], "int8": ["kind", "dtype"]}


def test_safetensors_become_one_flat_dict(scratch):
    tensors = {"a.b": np.arange(6.0).reshape(2, 3), "c": np.ones(4, np.int8)}
    safetensors.numpy.save_file(tensors, scratch / "a.safetensors")
    cairn_cli.run("convert", scratch / "a.safetensors", scratch / "a.msgpack", "--dtype", "bfloat16")
    wanted = {"a.b": jnp.asarray(tensors["a.b"], jnp.bfloat16), "c": tensors["c"]}
    assert (scratch / "a.msgpack").read_bytes() == flax.serialization.msgpack_serialize(wanted)


def test_choosing_and_renaming(scratch):
    (scratch / "a.msgpack").write_bytes(msgpack_utils.msgpack_serialize(state()))
    cairn_cli.run("convert", scratch / "a.msgpack", scratch / "b.msgpack", "--include", "opt.*", "--exclude", "opt.0.0", "--dialect", "orbax")
    assert (scratch / "b.msgpack").read_bytes() == msgpack_utils.msgpack_serialize({"opt": (((),), [np.float32(2.5), 3])})
    cairn_cli.run("convert", scratch / "a.msgpack", scratch / "c.msgpack", "--include", "params.*", "--rename", "^params[.]=model.")
    assert (scratch / "c.msgpack").read_bytes() == flax.serialization.msgpack_serialize({"model": state()["params"]})
    cairn_cli.run("convert", scratch / "a.msgpack", scratch / "d.msgpack", "--include", "nothing", status=cairn_cli.NO)
    assert not (scratch / "d.msgpack").exists()
    (scratch / "empty.msgpack").write_bytes(b"\x80")
    cairn_cli.run("convert", scratch / "empty.msgpack", scratch / "e.msgpack")
    assert (scratch / "e.msgpack").read_bytes() == b"\x80"


def test_unsupported_leaves(scratch):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "ckpt", args=ocp.args.PyTreeSave({"a": np.ones(3), "gone": ...}))
    failed = cairn_cli.run("convert", scratch / "ckpt", scratch / "a.msgpack", status=cairn_cli.USAGE)
    assert b"gone (a placeholder without data)" in failed.stderr and not (scratch / "a.msgpack").exists()
    cairn_cli.run("convert", scratch / "ckpt", scratch / "a.msgpack", "--skip-unsupported")
    assert cairn_cli.run("convert", scratch / "ckpt", scratch / "a.msgpack", "--skip-unsupported", status=cairn_cli.IO).stderr.count(b"already exists") == 1
    cairn_cli.run("convert", scratch / "ckpt", scratch / "a.msgpack", "--skip-unsupported", "--force")
    assert (scratch / "a.msgpack").read_bytes() == flax.serialization.msgpack_serialize({"a": np.ones(3)})
    cairn_cli.run("convert", scratch / "ckpt", scratch / "x.npz", "--dialect", "flax", status=cairn_cli.USAGE)
    cairn_cli.run("convert", scratch / "ckpt", scratch / "x.msgpack", "--dialect", "json", status=cairn_cli.USAGE)
    (scratch / "dates.msgpack").write_bytes(flax.serialization.msgpack_serialize({"t": np.array([1], "datetime64[D]")}))
    failed = cairn_cli.run("convert", scratch / "dates.msgpack", scratch / "x.msgpack", status=cairn_cli.USAGE)
    assert b"t (elements of type datetime64[D])" in failed.stderr


def test_memory_stays_bounded(scratch):
    """200 MiB in one array and 50 in small ones, with 16 MiB to work in."""
    tree = {"big": np.arange(50 << 20, dtype=np.float32), "small": {f"{i}": np.full(1 << 18, i, np.uint8) for i in range(200)}}
    (scratch / "a.msgpack").write_bytes(flax.serialization.msgpack_serialize(tree))
    script = "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True); print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    command = [cairn_cli.CAIRN, "convert", scratch / "a.msgpack", scratch / "b.msgpack", "--memory", "16MiB", "--json"]
    done = subprocess.run([sys.executable, "-c", script, *map(str, command)], capture_output=True, check=True)
    assert int(done.stdout.split()[-1]) * 1024 < 100 << 20, "bytes at the peak"
    assert (scratch / "b.msgpack").read_bytes() == (scratch / "a.msgpack").read_bytes()
