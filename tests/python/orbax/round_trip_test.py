"""Random trees through both packages: each restores, bit for bit, what the other one saved.

Hypothesis draws other trees in every run, and shrinks one that fails to its smallest form.
"""

import pathlib
import tempfile

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trees import described

# Arrays have any bits, whatever they mean: not-a-numbers of every kind, negative zeros.
DTYPES = [
    *map(np.dtype, ["int8", "uint16", "int32", "uint64", "float16", "float32", "float64"]),
    *map(np.dtype, ["complex64", ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.int4]),
    np.dtype(bool),
]
KEYS = st.text("abxyzW019_- éß漢", min_size=1, max_size=8)
SHAPES = st.lists(st.integers(1, 5), max_size=3)  # Orbax saves no array of size 0


@st.composite
def arrays(draw):
    dtype, shape = draw(st.sampled_from(DTYPES)), draw(SHAPES)
    size = int(np.prod(shape, dtype=int)) * dtype.itemsize
    data = np.frombuffer(draw(st.binary(min_size=size, max_size=size)), np.uint8)
    if dtype.name == "bool":
        values = data % 2 == 1
    elif dtype.name == "int4":
        values = (data.view(np.int8) % 16 - 8).astype(dtype)
    else:
        values = data.view(dtype)
    values = values.reshape(shape)
    return jnp.asarray(values) if draw(st.booleans()) else values


LEAVES = st.one_of(
    arrays(),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(),
    st.booleans(),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.none(),
    st.sampled_from([{}, []]),
)
NODES = st.recursive(
    LEAVES,
    lambda node: st.one_of(
        st.dictionaries(KEYS, node, min_size=1, max_size=4),
        st.lists(node, min_size=1, max_size=3),
        st.lists(node, min_size=1, max_size=3).map(tuple),
    ),
    max_leaves=10,
)
TREES = st.dictionaries(KEYS, NODES, max_size=4).flatmap(
    lambda tree: arrays().map(lambda array: {**tree, "always": array})
)


def as_stored(node):
    """Without a target, tuples come back as lists."""
    if isinstance(node, dict):
        return {key: as_stored(child) for key, child in node.items()}
    return [as_stored(child) for child in node] if isinstance(node, list | tuple) else node


def in_bits(tree):
    """A float as its bits, so that one that is not a number equals itself."""
    bits = lambda leaf: np.float64(leaf).tobytes() if isinstance(leaf, float) else leaf  # noqa: E731
    return jax.tree.map(bits, described(tree))


@settings(
    max_examples=40,
    deadline=None,
    database=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(tree=TREES, use_ocdbt=st.booleans(), use_zarr3=st.booleans())
def test_random_trees(writer_reader, tree, use_ocdbt, use_zarr3):
    writer, reader = writer_reader
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "c"
        writer.PyTreeCheckpointer(use_ocdbt=use_ocdbt, use_zarr3=use_zarr3).save(path, tree)
        restored = reader.PyTreeCheckpointer().restore(path)
    assert in_bits(restored) == in_bits(as_stored(tree))


ABOVE = {"dict": lambda child: {"a": child}, "list": lambda child: [child], "tuple": lambda child: (child,)}


def levels_of(tree):
    levels = 0
    while isinstance(tree, dict | list | tuple):
        (tree,) = tree.values() if isinstance(tree, dict) else tree
        levels += 1
    return levels


@pytest.mark.parametrize("levels", [150, 500, 900])  # JAX itself takes about 990
@pytest.mark.parametrize("above", ABOVE)
def test_deep_trees(writer_reader, tmp_path, above, levels):
    tree = np.arange(3)
    for _ in range(levels):
        tree = ABOVE[above](tree)
    writer, reader = writer_reader
    writer.PyTreeCheckpointer().save(tmp_path / "c", tree)
    for package in writer_reader:
        assert levels_of(package.PyTreeCheckpointer().restore(tmp_path / "c")) == levels
        assert levels_of(package.PyTreeCheckpointer().metadata(tmp_path / "c").item_metadata.tree) == levels
    reader.StandardCheckpointer().restore(tmp_path / "c")
