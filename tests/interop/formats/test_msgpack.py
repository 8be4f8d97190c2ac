"""msgpack files by the real flax and Orbax packages, read by Cairn."""

import collections

import flax.serialization
import jax
import jax.numpy as jnp
import ml_dtypes
import msgpack
import numpy as np
import pytest
from orbax.checkpoint import msgpack_utils

import cairn_cli
import leaves
import random_trees

Point = collections.namedtuple("Point", ["x", "y"])
# NumPy's own name for these types is what the file holds; sub-byte ones are unpacked there, too.
DTYPES = random_trees.DTYPES


def array_tree():
    rng = np.random.default_rng(8)
    tree = {dtype.name: random_trees.random_values(rng, dtype, [(), (3,), (2, 5), (2, 1, 3)][i % 4]) for i, dtype in enumerate(DTYPES)}
    return {"types": tree, "params": {"dense": {"kernel": jnp.arange(600.0).reshape(20, 30), "bias": jnp.ones(30, jnp.bfloat16)}}, "step": np.asarray(3), "fortran": np.asfortranarray(np.arange(6.0).reshape(2, 3))}


def check(path, tree):
    wanted = {leaf.record["name"]: leaf for leaf in leaves.leaves(tree)}
    listed = {entry["name"]: entry for entry in cairn_cli.ls(path)}
    assert sorted(listed) == sorted(wanted)
    for name, leaf in wanted.items():
        if leaf.data is None:
            continue
        assert (listed[name]["dtype"], listed[name]["shape"]) == (leaf.record["dtype"], leaf.record["shape"]), name
        cairn_cli.same_bytes(cairn_cli.cat(path, name), leaf.data, leaf.record)


@pytest.mark.parametrize("serialize", [flax.serialization.msgpack_serialize, flax.serialization.to_bytes, msgpack_utils.msgpack_serialize], ids=["flax", "flax-to-bytes", "orbax"])
def test_every_type(scratch, serialize):
    (scratch / "model.msgpack").write_bytes(serialize(array_tree()))
    check(scratch / "model.msgpack", array_tree())
    cairn_cli.verify(scratch / "model.msgpack")


def test_every_value(scratch):
    """Lists, tuples, numbers, text, None and empty containers, wherever msgpack can hold them."""
    tree = {"list": [np.arange(3), {"x": 1}, []], "tuple": (np.float32(2.5), "text", None), "int": -5, "big": 2**63 - 1, "float": 0.1, "bool": True,
            "none": None, "text": "ünï 漢字", "empty": {"dict": {}, "list": []}, "int8": np.int8(-3), "bf": ml_dtypes.bfloat16(1.5)}
    (scratch / "a.msgpack").write_bytes(msgpack_utils.msgpack_serialize(tree))
    listed = {entry["name"]: entry for entry in cairn_cli.ls(scratch / "a.msgpack")}
    assert {"list.0", "list.1.x", "tuple.0", "int", "float", "text", "int8"} <= set(listed)
    assert cairn_cli.cat(scratch / "a.msgpack", "list.0") == np.arange(3).tobytes()
    assert cairn_cli.cat(scratch / "a.msgpack", "tuple.0") == np.float32(2.5).tobytes()
    assert cairn_cli.cat(scratch / "a.msgpack", "text").decode() == tree["text"]
    assert cairn_cli.cat(scratch / "a.msgpack", "int") == np.int64(-5).tobytes()
    assert cairn_cli.cat(scratch / "a.msgpack", "float") == np.float64(0.1).tobytes()


def test_chunked_arrays(scratch):
    """Arrays over 2^30 bytes are stored in pieces; here the pieces are made by hand, small."""
    array = np.arange(24, dtype=np.int32).reshape(4, 6)
    pieces = [array.ravel()[:10], array.ravel()[10:20], array.ravel()[20:]]
    tree = {"big": {"__msgpack_chunked_array__": True, "shape": {"0": 4, "1": 6}, "chunks": {str(i): piece for i, piece in enumerate(pieces)}}}
    assert (flax.serialization.msgpack_restore(flax.serialization.msgpack_serialize(tree))["big"] == array).all()
    (scratch / "a.msgpack").write_bytes(flax.serialization.msgpack_serialize(tree))
    check(scratch / "a.msgpack", {"big": array})


def test_train_state(scratch):
    """What a flax training script writes: to_bytes of a state with an optax-like tuple of namedtuples."""
    state = {"params": {"w": jnp.ones((3, 4))}, "opt": (Point(jnp.zeros(3), jnp.ones(2)), ()), "step": 7}
    (scratch / "state.msgpack").write_bytes(flax.serialization.to_bytes(state))
    plain = flax.serialization.msgpack_restore((scratch / "state.msgpack").read_bytes())
    check(scratch / "state.msgpack", jax.tree.map(lambda leaf: leaf, plain))


def ndarray(shape, dtype, data):
    return msgpack.packb({"a": msgpack.ExtType(1, msgpack.packb((shape, dtype, data), use_bin_type=True))})


@pytest.mark.covers("msgpack_utils.msgpack_restore", "flax.serialization.msgpack_restore")
@pytest.mark.parametrize("data", [
    ndarray([4], "float32", b"\0" * 15), ndarray([4], "float32", b"\0" * 17), ndarray([2**40, 2**40], "float32", b"\0"), ndarray([-1], "float32", b""),
    msgpack.packb({"a": msgpack.ExtType(9, b"x")}), b"\x81\xa1a", b"\xdf\xff\xff\xff\xff", b"\x91" * 100_000, msgpack.packb({1: 2, "1": 3}), msgpack.packb({"a": 1}) + b"\0",
], ids=["short", "long", "overflow", "negative", "ext", "truncated", "count", "deep", "int-key-twice", "trailing"])
def test_damaged_files_are_refused(scratch, data):
    """By Orbax's reader too, but for a negative extent."""
    (scratch / "a.msgpack").write_bytes(data)
    cairn_cli.run("ls", scratch / "a.msgpack", status=cairn_cli.IO)
    if data == ndarray([-1], "float32", b""):
        assert msgpack_utils.msgpack_restore(data)["a"].size == 0
        return
    with pytest.raises(ValueError):
        msgpack_utils.msgpack_restore(data)


@pytest.mark.covers(
    "msgpack_utils.msgpack_restore",
    note="Repeated keys and negative extents are `data_loss`. Orbax accepts both.",
)
def test_repeated_keys_are_refused(scratch):
    """Both packages keep the last value."""
    data = b"\x82\xa1a\x01\xa1a\x02"
    assert msgpack_utils.msgpack_restore(data) == flax.serialization.msgpack_restore(data) == {"a": 2}
    (scratch / "a.msgpack").write_bytes(data)
    cairn_cli.run("ls", scratch / "a.msgpack", status=cairn_cli.IO)


@pytest.mark.covers(
    "msgpack_utils.msgpack_restore",
    note="An array in chunks of several types is `data_loss`. Orbax joins the chunks.",
)
def test_chunks_of_several_types_are_refused(scratch):
    """Both packages join them, and so change the type of some."""
    tree = {"big": {"__msgpack_chunked_array__": True, "shape": {"0": 2}, "chunks": {"0": np.ones(1, np.int16), "1": np.ones(1, np.float32)}}}
    data = flax.serialization.msgpack_serialize(tree)
    assert msgpack_utils.msgpack_restore(data)["big"].tolist() == flax.serialization.msgpack_restore(data)["big"].tolist() == [1, 1]
    (scratch / "a.msgpack").write_bytes(data)
    refused = cairn_cli.run("ls", scratch / "a.msgpack", status=cairn_cli.IO)
    assert b"the dtype of chunk 1 differs from that of chunk 0" in refused.stderr


@pytest.mark.covers(
    "flax.serialization.msgpack_restore",
    note="Integer keys become decimal strings.",
)
def test_integer_keys(scratch):
    """flax restores them, Orbax refuses them. A file may be flax's; Orbax's own aggregate file may not have them."""
    data = flax.serialization.msgpack_serialize({1: {-2: np.arange(3)}}, in_place=True)
    assert flax.serialization.msgpack_restore(data)[1][-2].tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="not allowed for map key"):
        msgpack_utils.msgpack_restore(data)
    (scratch / "a.msgpack").write_bytes(data)
    check(scratch / "a.msgpack", {"1": {"-2": np.arange(3)}})
    (scratch / "item").mkdir()
    (scratch / "item" / "checkpoint").write_bytes(data)
    refused = cairn_cli.run("ls", scratch / "item", status=cairn_cli.IO)
    assert b"the key 1 is an integer" in refused.stderr


def test_timestamps(scratch):
    """A leaf of msgpack's own; as a tensor it is its seconds and nanoseconds. It stays one when converted to msgpack."""
    times = {"short": msgpack.Timestamp(7), "long": msgpack.Timestamp(2**33, 5), "before": msgpack.Timestamp(-1, 999_999_999)}
    data = flax.serialization.msgpack_serialize(times)
    assert flax.serialization.msgpack_restore(data) == times
    (scratch / "a.msgpack").write_bytes(data)
    for name, time in times.items():
        assert np.frombuffer(cairn_cli.cat(scratch / "a.msgpack", name), "<i8").tolist() == [time.seconds, time.nanoseconds]
    cairn_cli.verify(scratch / "a.msgpack")
    cairn_cli.run("convert", scratch / "a.msgpack", scratch / "b.msgpack")
    assert flax.serialization.msgpack_restore((scratch / "b.msgpack").read_bytes()) == times


@pytest.mark.covers("msgpack_utils.msgpack_restore")
def test_extra_members_of_a_chunked_array(scratch):
    array = np.arange(6, dtype=np.int16)
    tree = {"big": {"__msgpack_chunked_array__": True, "shape": {"0": 6}, "chunks": {"0": array[:4], "1": array[4:]}, "note": "ignored", "more": {"x": [1]}}}
    data = flax.serialization.msgpack_serialize(tree)
    assert (flax.serialization.msgpack_restore(data)["big"] == array).all()
    (scratch / "a.msgpack").write_bytes(data)
    check(scratch / "a.msgpack", {"big": array})
