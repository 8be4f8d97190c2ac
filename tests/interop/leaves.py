"""What a reader of a checkpoint must see: one record a leaf, computed from the Python tree that was saved.

A record has `name` (keys joined with '.'), `path` (keys: integers for positions, else text), `kind` (the typestr Orbax records), `dtype`,
`shape` and either `sha256` of the C-order little-endian bytes or, for strings, `value`. Scalars carry both.
"""

import dataclasses
import hashlib

import jax
import numpy as np


def is_empty(node):
    if node is None:
        return True
    return isinstance(node, (dict, list, tuple)) and len(node) == 0


def empty_kind(node):
    if isinstance(node, dict):
        return "Dict"
    if isinstance(node, list):
        return "List"
    return "Tuple" if type(node) is tuple else "None"  # an empty namedtuple is recorded as None


def key_value(key):
    """A position as an integer; a dict key (an integer one, too) or a field as text."""
    if isinstance(key, jax.tree_util.SequenceKey):
        return key.idx
    if isinstance(key, jax.tree_util.FlattenedIndexKey):
        return key.key
    return str(key.key if isinstance(key, jax.tree_util.DictKey) else key.name)


def name_of(path):
    return ".".join(str(key_value(key)) for key in path)


def digest(array):
    return hashlib.sha256(raw_bytes(array)).hexdigest()


def raw_bytes(array):
    array = np.asarray(array)
    if array.dtype.byteorder == ">":
        array = array.astype(array.dtype.newbyteorder("<"))
    return array.tobytes()


@dataclasses.dataclass
class Leaf:
    """One leaf or empty node and the bytes it must be read as (None where it has none)."""

    record: dict
    data: bytes | None = None


def array_leaf(record, array):
    array = np.asarray(array)
    record |= {"dtype": array.dtype.name, "shape": list(array.shape), "sha256": digest(array)}
    return Leaf(record, raw_bytes(array))


def describe(path, value):
    """The Leaf for `value` found at `path`, a JAX key path."""
    record = {"name": name_of(path), "path": [key_value(key) for key in path]}
    if is_empty(value):
        return Leaf(record | {"kind": empty_kind(value)})
    if value is ...:
        return Leaf(record | {"kind": "placeholder"})
    if isinstance(value, str):
        return Leaf(record | {"kind": "string", "dtype": "string", "value": value}, value.encode())
    if isinstance(value, (bool, int, float, np.number)):
        array = np.asarray(value)
        return array_leaf(record | {"kind": "scalar", "value": repr(array.item())}, array)
    if isinstance(value, np.ndarray):
        return array_leaf(record | {"kind": "np.ndarray"}, value)
    if isinstance(value, jax.Array):
        if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
            value = jax.random.key_data(value)
        return array_leaf(record | {"kind": "jax.Array"}, value)
    raise TypeError(f"{record['name']}: {type(value)}")


def leaves(tree):
    """All leaves and empty nodes of a pytree in flatten order."""
    flat, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=is_empty)
    return [describe(path, value) for path, value in flat]


def records(tree):
    return [leaf.record for leaf in leaves(tree)]
