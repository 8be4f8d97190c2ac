"""msgpack_utils: the bytes, trees and errors are those of Orbax."""

import collections

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import orbax.checkpoint as real
import pytest

import cairn
import cairn.orbax as ours
from cairn.orbax._impl.trees import msgpack_bytes

Pair = collections.namedtuple("Pair", "x y")
THEIRS, OURS = real.msgpack_utils, ours.msgpack_utils

DTYPES = ["bool", "int8", "uint16", "int32", "uint64", "float16", "float32", "float64"]
DTYPES += ["complex64", "complex128", "bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"]

TREES = {
    "numbers": {"i": 3, "f": 1.5, "b": True, "c": 1 + 2j, "n": None, "big": 2**63, "neg": -(2**40)},
    "texts": {"s": "text", "b": b"bytes", "ü": "ü" * 300},
    "containers": {"l": [1, [2, ()]], "t": (1, (2, "x"), [3]), "d": {}, "z": {"y": {"x": []}}},
    "order of keys": {"b": 1, "a": 2, "C": {"d": 1, "c": 2}},
    "arrays": {name: np.arange(6).reshape(2, 3).astype(name) for name in DTYPES},
    "scalars": [np.dtype(name).type(1) for name in DTYPES],
    "shapes": [np.zeros(()), np.zeros((0, 3)), np.zeros((1, 1, 1)), np.arange(12).reshape(3, 4).T],
    "big endian": np.arange(3, dtype=">i4"),
    "jax": {"a": jnp.arange(3), "l": [jnp.ones(2, jnp.bfloat16)], "t": (jnp.zeros(()),)},
    "times": {"d": np.array(["2020-01-01"], "datetime64[D]")},
    "a named tuple": {"p": Pair(1, np.ones(2))},
    "an array": np.arange(5),
    "an array of jax": jnp.arange(5),
    "a number": 5,
    "nothing": None,
}

REFUSED = {
    "an object": {"a": object()},
    "a set": {"a": {1, 2}},
    "a class of a dict": collections.OrderedDict(a=1),
    "an array of objects": np.array([None, 1], object),
    "an aligned record": np.zeros(2, np.dtype([("a", "i1"), ("b", "i4")], align=True)),
    "a huge number": 2**70,
}


def plain(tree):
    """The structure, types, dtypes, shapes and bytes of a tree."""
    leaves, structure = jax.tree.flatten(tree)
    return str(structure), [
        (type(leaf), leaf.dtype, leaf.shape, leaf.tobytes())
        if isinstance(leaf, np.ndarray | np.generic)
        else (type(leaf), leaf)
        for leaf in leaves
    ]


def outcome(work):
    try:
        return work()
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("name", TREES)
def test_bytes_and_trees(name):
    tree = TREES[name]
    packed = OURS.msgpack_serialize(tree)
    assert packed == THEIRS.msgpack_serialize(tree)
    found, expected = OURS.msgpack_restore(packed), THEIRS.msgpack_restore(packed)
    assert plain(found) == plain(expected)
    for mine, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        if isinstance(mine, np.ndarray):
            assert mine.flags.writeable == other.flags.writeable


def copies(tree):
    """Two trees with containers of their own."""
    return [jax.tree.map(lambda leaf: leaf, tree) for _ in range(2)]


@pytest.mark.parametrize("limit", [8, 16, 100])
@pytest.mark.parametrize("in_place", [False, True])
def test_large_arrays_are_split(limit, in_place, monkeypatch):
    for module in (msgpack_bytes, THEIRS):
        monkeypatch.setattr(module, "MAX_CHUNK_SIZE", limit)
    for tree in (
        {"a": np.arange(12.0).reshape(3, 4), "b": {"c": jnp.arange(5), "d": np.ones((), "c16")}},
        {"l": [np.arange(12.0)], "t": (np.arange(12.0),), "e": np.zeros((0, 2))},
        np.arange(7, dtype="i2"),
        jnp.arange(7),
    ):
        mine, other = copies(tree)
        packed = OURS.msgpack_serialize(mine, in_place=in_place)
        assert packed == THEIRS.msgpack_serialize(other, in_place=in_place)
        assert plain(mine) == plain(other)
        assert plain(OURS.msgpack_restore(packed)) == plain(THEIRS.msgpack_restore(packed))


def test_in_place_keeps_the_order_of_keys():
    tree = {"b": 1, "a": {"d": jnp.ones(2), "c": 2}}
    packed = OURS.msgpack_serialize(tree, in_place=True)
    assert isinstance(tree["a"]["d"], np.ndarray)
    assert packed == THEIRS.msgpack_serialize(tree, in_place=True)
    assert list(OURS.msgpack_restore(packed)) == ["b", "a"]


@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("in_place", [False, True])
def test_what_is_refused(name, in_place):
    found, expected = (
        outcome(lambda module=module: module.msgpack_serialize(REFUSED[name], in_place))
        for module in (OURS, THEIRS)
    )
    assert found == expected and isinstance(found, type)


@pytest.mark.parametrize(
    "data", [b"", b"\xc1", b"\x81\x01\x02", b"\xd4\x07\x00", b"\xa5ab", b"\x01\x02"]
)
def test_bytes_that_are_not_of_this_form(data):
    found, expected = (
        outcome(lambda module=module: module.msgpack_restore(data)) for module in (OURS, THEIRS)
    )
    assert isinstance(expected, type) and issubclass(found, expected)


def test_files_of_cairn(tmp_path):
    tree = {"a": np.arange(6.0), "b": {"c": 3, "d": np.ones(2, ml_dtypes.bfloat16)}}
    cairn.save(tmp_path / "c.msgpack", tree)
    packed = (tmp_path / "c.msgpack").read_bytes()
    assert packed == OURS.msgpack_serialize(tree)
    assert plain(OURS.msgpack_restore(packed)) == plain(tree)
