"""Random msgpack values through both packages and Cairn: the same bytes, the same values, or the same error."""

import os
import random

import flax.serialization
import jax
import jax.numpy as jnp
import msgpack
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec
from orbax.checkpoint import msgpack_utils

import test_msgpack_write as write

SEED = int(os.environ["CAIRN_SEED"])
VALUES = 2400
READERS = {"flax": flax.serialization, "orbax": msgpack_utils}
# What a message of the real package says, and what Cairn's says of the same.
GISTS = {"can not serialize 'ellipsis'": "a placeholder", "Unsupported msgpack object: Ellipsis": "a placeholder", "can not serialize 'tuple'": "does not write tuples",
         "can not serialize 'Pair'": "does not write tuples", "PRNGKey dtype": "typed PRNG key", "Object and structured dtypes": "array of Python objects",
         "not understood": "cannot be restored", "itemsize cannot be zero": "cannot be restored", "not allowed for map key": "is an integer"}


# ---- values ----
def odd_array(rng):
    """Arrays of NumPy's types that have no DType. It finds those of the first line again by their names."""
    count = rng.choice([0, 1, 3])
    return rng.choice([
        lambda: np.asarray([rng.randrange(-(2**40), 2**40) for _ in range(count)]).astype(rng.choice(["M8[ns]", "M8[D]", "M8[25s]", "m8[us]", "m8", "M8", "m8[3W]"])), lambda: np.ones(count, np.longdouble), lambda: np.zeros((2, count), np.clongdouble),
        lambda: np.asarray(["ab", "ü漢"][:count]), lambda: np.asarray([b"abc", b"d"][:count]), lambda: np.zeros(count, "V3"), lambda: np.zeros(count, [("a", "i4"), ("b", "f8")])])()


def odd_scalar(rng):
    return rng.choice([np.datetime64("2026-11-23", rng.choice("YMDhs")), np.timedelta64(rng.randrange(100), "ms"), np.datetime64("NaT"), np.bytes_(b"abc"), np.void(b"xyz")])


def timestamp(rng):
    return msgpack.Timestamp(rng.choice([0, 2**32 - 1, 2**32, 2**34 - 1, 2**34, -1, -(2**63), 2**63 - 1, rng.randrange(2**33)]), rng.choice([0, 0, 1, 999_999_999]))


def on_devices(rng):
    mesh = jax.sharding.Mesh(np.asarray(jax.devices()).reshape(rng.choice([(8, 1), (2, 4), (4, 2)])), ("x", "y"))
    spec = rng.choice([PartitionSpec(), PartitionSpec("x"), PartitionSpec(None, "y"), PartitionSpec("y", "x"), PartitionSpec(("x", "y"))])
    values = np.arange(64 * rng.choice([1, 2])).reshape(8, -1).astype(rng.choice(["float32", "int16", "uint8", "complex64", jnp.bfloat16]))
    return jax.device_put(values, NamedSharding(mesh, spec))


def chunked(rng):
    """An array in pieces as a writer makes them, now and then with members that nobody asked for."""
    array = np.arange(12).astype(rng.choice(["int32", "float64", "M8[s]"]))
    made = {"__msgpack_chunked_array__": True, "shape": {"0": 3, "1": 4}, "chunks": {"0": array[:5], "1": array[5:]}}
    return made | ({"more": rng.choice([1, {"a": np.ones(2)}, [None]])} if rng.random() < 0.5 else {})


def value(rng, tuples):
    tree = write.random_tree(rng, 3, tuples)
    members = [odd_array, odd_scalar, timestamp, chunked]
    return {"tree": tree, **{f"m{i}": rng.choice(members)(rng) for i in range(rng.randrange(3))}, "in": [rng.choice(members)(rng)]} if rng.random() < 0.7 else tree


def bad_leaf(rng):
    return rng.choice([..., np.asarray([None, 1], object), jax.random.key(1), (1, 2), write.Pair(1, 2)])


# ---- comparison ----
def same_error(error, ours, about):
    gist = next((gist for real, gist in GISTS.items() if real in str(error)), None)
    assert gist is not None, (about, "an error of the real package that this test does not know", error)
    assert gist in ours.get("error", ""), (about, error, ours)


def text_keys(tree):
    """What Cairn makes of keys: text."""
    if isinstance(tree, dict):
        return {key.decode() if isinstance(key, bytes) else str(key): text_keys(value) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        items = [text_keys(value) for value in tree]
        return tuple(items) if isinstance(tree, tuple) else items
    return tree


def described(tree):
    if isinstance(tree, jax.Array) and jnp.issubdtype(tree.dtype, jax.dtypes.prng_key):
        return ["key"]
    if isinstance(tree, dict):
        return ["dict", [[key, described(value)] for key, value in tree.items()]]
    if isinstance(tree, np.ndarray) and tree.dtype == object:
        return ["numpy", "object", list(tree.shape), "00" * 8 * tree.size, False]
    return write.node(tree)


@pytest.fixture
def tool(scratch):
    tool = write.Tool(scratch)
    yield tool
    tool.process.stdin.close()
    assert tool.process.wait() == 0


@pytest.mark.covers("msgpack_utils.msgpack_serialize")
def test_cairn_writes_what_they_write(tool):
    keys = list(write.WRITERS)
    refused = 0
    for i in range(VALUES // 2):
        about = f"seed {SEED}, value {i}"
        rng = random.Random(f"{SEED} written {i}")
        key, chunk = keys[i % len(keys)], rng.choice([None, 1, 8, 64])
        tree = value(rng, tuples=key[0] != "flax")
        if rng.random() < 0.2:
            tree = {"a": tree, "bad": rng.choice([bad_leaf, on_devices])(rng)}
        elif rng.random() < 0.1:
            tree = {"devices": on_devices(rng), "list": [on_devices(rng)]}
        theirs = write.real(key, tree, chunk)
        ours = tool.ask(key, chunk, tree=described(tree))
        if isinstance(theirs, Exception):
            refused += 1
            same_error(theirs, ours, about)
            assert ours["code"] == "invalid_argument", (about, ours)
        else:
            assert ours.get("hex") == theirs.hex(), (about, key, ours.get("error"), tree)
    assert 10 < refused < VALUES // 4


def readable(dialect, tree):
    """Whether the package reads what it writes: so that integer keys are a tree's only flaw."""
    try:
        READERS[dialect].msgpack_restore(READERS[dialect].msgpack_serialize(write.rebuilt(tree), in_place=True))
    except (TypeError, ValueError):
        return False
    return True


@pytest.mark.covers("msgpack_utils.msgpack_restore", note="Keys that are bytes become strings.")
@pytest.mark.covers(
    "msgpack_utils.msgpack_restore",
    note="Arrays of str, bytes, void and structs are `unimplemented`; `open_msgpack` lists them.",
)
def test_cairn_reads_what_they_read(tool):
    refused = 0
    for i in range(VALUES // 2):
        about = f"seed {SEED}, value {i}"
        rng = random.Random(f"{SEED} read {i}")
        dialect = ("flax", "orbax")[i % 2]
        tree = value(rng, tuples=dialect == "orbax")
        if rng.random() < 0.3 and readable(dialect, tree):
            tree = rng.choice([{1: tree}, {"a": tree, "b": {-7: 1, "c": 2}}, [{2**64 - 1: [tree]}], {b"bytes": tree}])
        data = READERS[dialect].msgpack_serialize(write.rebuilt(tree), in_place=True)
        ours = tool.ask((dialect, True), read=data.hex())
        try:
            theirs = READERS[dialect].msgpack_restore(data)
        except (TypeError, ValueError) as error:
            refused += 1
            same_error(error, ours, about)
            continue
        assert ours.get("tree") == write.node(text_keys(theirs)), (about, dialect, ours)
    assert 10 < refused < VALUES // 2 * 0.8


@pytest.mark.covers("msgpack_utils.msgpack_restore")
def test_integer_keys_are_refused_as_orbax_refuses_them(tool):
    for tree, key in (({1: 2}, "1"), ({"a": [{-5: 1}]}, "-5"), ({2**64 - 1: None}, str(2**64 - 1))):
        data = msgpack.packb(tree)
        with pytest.raises(ValueError, match="int is not allowed for map key"):
            msgpack_utils.msgpack_restore(data)
        ours = tool.ask(("orbax", True), read=data.hex())
        assert ours["code"] == "data_loss" and f"the key {key} is an integer" in ours["error"]
        assert tool.ask(("flax", True), read=data.hex())["tree"] == write.node(text_keys(flax.serialization.msgpack_restore(data)))


@pytest.mark.covers("msgpack_utils.msgpack_restore")
def test_long_double_scalars_are_read(tool):
    """By value: the padding of their sixteen bytes is whatever lay there."""
    for package, dialect in ((flax.serialization, "flax"), (msgpack_utils, "orbax")):
        for number in (np.longdouble("1.5"), np.clongdouble(2 - 3j)):
            data = package.msgpack_serialize(number)
            kind, name, shape, content, scalar = tool.ask((dialect, True), read=data.hex())["tree"]
            assert (kind, name, shape, scalar) == ("numpy", number.dtype.name, [], True)
            assert np.frombuffer(bytes.fromhex(content), number.dtype)[0] == number == package.msgpack_restore(data)


@pytest.mark.covers("msgpack_utils.msgpack_serialize", alone=True)
def test_an_array_that_is_not_all_here_is_refused(tool):
    """As np.array refuses a jax.Array that spans other processes."""
    node = write.node(on_devices(random.Random(0)))
    node[4] = [[0, [0, 0], [4, 8]]]
    for key in write.WRITERS:
        ours = tool.ask(key, tree=["dict", [["w", node]]])
        assert ours["code"] == "failed_precondition" and ours["error"].startswith("w: "), ours
