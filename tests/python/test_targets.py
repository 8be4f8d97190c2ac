"""cairn.load into the caller's own structure and arrays."""

import collections
import dataclasses
import os
import subprocess
import sys

import cairn
import numpy as np
import pytest
from same import assert_same

Pair = collections.namedtuple("Pair", "a b")


@pytest.fixture
def stored(tmp_path):
    cairn.save(tmp_path / "c", {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "pair": Pair(1, np.ones(2)), "s": "text", "n": None})
    return tmp_path / "c"


def test_the_target_says_what_comes_back(stored):
    target = {"w": np.zeros((2, 3), np.float16), "pair": Pair(0.0, np.zeros(2)), "s": "", "n": None}
    want = {"w": np.arange(6, dtype=np.float16).reshape(2, 3), "pair": Pair(1.0, np.ones(2)), "s": "text", "n": None}
    assert_same(cairn.load(stored, target), want)
    assert not target["w"].any()  # it is not changed


def test_every_difference_is_listed(stored):
    with pytest.raises(ValueError) as error:
        cairn.load(stored, {"w": np.zeros((2, 3)), "pair": {"a": 0}, "new": 1, "n": 5})
    text = str(error.value)
    for line in ("new: in the target, not stored", "n: in the target, stored as empty", "pair.b: stored, not in the target",
                 "s: stored, not in the target", "partial=True"):
        assert line in text


def test_partial(stored):
    loaded = cairn.load(stored, {"w": np.zeros((2, 3), np.float32), "new": 5}, partial=True)
    assert_same(loaded, {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "new": 5})


def test_a_placeholder_stays(stored):
    target = {"w": ..., "pair": Pair(0, ...), "s": ..., "n": None}
    assert cairn.load(stored, target) == {"w": ..., "pair": Pair(1, ...), "s": ..., "n": None}


def test_another_shape_is_refused_by_name(stored):
    with pytest.raises(ValueError, match=r"w: the stored shape is \(2, 3\), the target's is \(3, 2\)"):
        cairn.load(stored, {"w": np.zeros((3, 2))}, partial=True)
    with pytest.raises(TypeError, match="w: a target cannot have a leaf of type object"):
        cairn.load(stored, {"w": object()}, partial=True)


def test_into_the_callers_arrays(stored):
    out = {"w": np.zeros((3, 2), np.float32).T, "pair": {"b": np.zeros(2)}}
    before = out["w"]
    assert cairn.load(stored, out=out, partial=True) is out and out["w"] is before
    assert before.tolist() == [[0, 1, 2], [3, 4, 5]] and out["pair"]["b"].tolist() == [1, 1]
    with pytest.raises(ValueError, match="w: .*float"):
        cairn.load(stored, out={"w": np.zeros((2, 3))}, partial=True)
    with pytest.raises(TypeError, match="w: an object of type int cannot be read into"):
        cairn.load(stored, out={"w": 5}, partial=True)
    expanded = np.lib.stride_tricks.as_strided(np.zeros(3, np.float32), (2, 3), (0, 4))
    with pytest.raises(ValueError, match="w: elements of the destination share memory: it is expanded in dimension 0"):
        cairn.load(stored, out={"w": expanded}, partial=True)
    assert not expanded.any()
    windows = np.lib.stride_tricks.as_strided(np.zeros(4, np.float32), (2, 3), (4, 4))
    with pytest.raises(ValueError, match="w: elements of the destination may share memory: its stride in dimension 1 is 4 bytes"):
        cairn.load(stored, out={"w": windows}, partial=True)
    assert not windows.any()


def test_options_that_exclude_each_other(stored):
    for options in ({"target": {}, "out": {}}, {"target": {}, "framework": "torch"}, {"framework": "caffe"}):
        with pytest.raises(ValueError):
            cairn.load(stored, **options)
    with pytest.raises(ValueError, match="this checkpoint is open"):
        cairn.load(cairn.open(stored), step=1)


WITHOUT_JAX = """
import collections, dataclasses, sys
import cairn, numpy as np
Pair = collections.namedtuple("Pair", "a b")
@dataclasses.dataclass
class State:
    step: int
    pair: Pair
tree = State(3, Pair(np.arange(3), [np.ones(2), (4,)]))
cairn.save(sys.argv[1], tree)
zero = State(0, Pair(np.zeros(3, int), [np.zeros(2), (0,)]))
loaded = cairn.load(sys.argv[1], zero)
assert type(loaded) is State and type(loaded.pair) is Pair and loaded.step == 3
assert loaded.pair.a.tolist() == [0, 1, 2] and loaded.pair.b[1] == (4,)
assert not {"jax", "torch", "tensorflow"} & set(sys.modules)
"""


def test_without_jax(tmp_path):
    root = cairn.__file__.rpartition("/cairn/")[0]
    subprocess.run([sys.executable, "-c", WITHOUT_JAX, str(tmp_path / "c")], check=True, env=os.environ | {"PYTHONPATH": root})


def test_states_of_jax_libraries(tmp_path):
    import flax.struct
    import jax
    import jax.numpy as jnp
    import optax
    from flax import nnx

    @flax.struct.dataclass
    class Own:
        params: dict
        note: str = flax.struct.field(pytree_node=False, default="static")

    @jax.tree_util.register_dataclass
    @dataclasses.dataclass
    class Registered:
        x: jax.Array

    params = {"w": jnp.arange(4.0), "b": jnp.ones(2)}
    model = nnx.Linear(2, 3, rngs=nnx.Rngs(0))
    tree = {
        "opt": optax.adamw(1e-3).init(params),
        "own": Own(params),
        "registered": Registered(jnp.ones(3)),
        "nnx": nnx.state(model),
        "key": jax.random.key(5),
        "none": None,
    }
    cairn.save(tmp_path / "c", tree)
    blank = jax.tree.map(lambda x: x if jnp.issubdtype(x.dtype, jax.dtypes.prng_key) else jnp.zeros_like(x), tree)
    loaded = cairn.load(tmp_path / "c", blank)
    assert jax.tree.structure(loaded) == jax.tree.structure(tree)
    for a, b in zip(jax.tree.leaves(loaded), jax.tree.leaves(tree)):
        assert a.dtype == b.dtype and a.sharding == b.sharding
        if jnp.issubdtype(a.dtype, jax.dtypes.prng_key):
            a, b = jax.random.key_data(a), jax.random.key_data(b)
        assert np.asarray(a).tobytes() == np.asarray(b).tobytes()


def test_orbax_names_the_leaves_of_such_states_alike(tmp_path):
    import jax.numpy as jnp
    import optax
    import orbax.checkpoint as ocp
    from flax import nnx

    tree = {"opt": optax.chain(optax.clip(1.0), optax.adam(1e-3)).init({"w": jnp.ones(3)}),
            "nnx": nnx.state(nnx.Linear(2, 3, rngs=nnx.Rngs(0)))}
    cairn.save(tmp_path / "ours", tree)
    ocp.PyTreeCheckpointer().save(tmp_path / "theirs", tree)
    assert sorted(cairn.open(tmp_path / "ours").tensors) == sorted(cairn.open(tmp_path / "theirs").tensors)
    restored = ocp.PyTreeCheckpointer().restore(tmp_path / "ours", item=tree)
    import jax

    assert jax.tree.structure(restored) == jax.tree.structure(tree)


def test_a_dtype_that_there_is_not_is_a_type_error(tmp_path):
    cairn.save(tmp_path / "c", {"w": np.ones(2)})
    with pytest.raises(TypeError, match="'nonsense' is not a type of NumPy or ml_dtypes"):
        cairn.load(tmp_path / "c", dtype="nonsense")


def test_a_path_with_a_nul_is_a_value_error(tmp_path):
    with pytest.raises(ValueError, match="NUL|\\x00"):
        cairn.load(tmp_path / "a\0b")


@dataclasses.dataclass
class Unregistered:
    """A class that JAX's registry lacks."""

    w: object
    below: object = None


def test_a_dataclass_that_jax_does_not_know_is_a_node(tmp_path, jax8):
    import types

    node = Unregistered(np.ones(2), [Unregistered(np.arange(3), 4), {"x": types.MappingProxyType({"k": 5.0})}])
    cairn.save(tmp_path / "c", {"s": node})
    like = Unregistered(np.zeros(2), [Unregistered(np.zeros(3, int), 0), {"x": types.MappingProxyType({"k": 0.0})}])
    loaded = cairn.load(tmp_path / "c", {"s": like})["s"]
    assert loaded.w.tolist() == [1, 1] and loaded.below[0].w.tolist() == [0, 1, 2] and loaded.below[0].below == 4
    assert type(loaded) is Unregistered and dict(loaded.below[1]["x"]) == {"k": 5.0} and not like.w.any()
    out = {"s": Unregistered(np.zeros(2))}
    cairn.load(tmp_path / "c", out=out, partial=True)
    assert out["s"].w.tolist() == [1, 1]
    with pytest.raises(ValueError, match="s.w: the stored shape"):
        cairn.load(tmp_path / "c", {"s": Unregistered(np.zeros(3))}, partial=True)


def test_empty_memory_shares_nothing(tmp_path):
    cairn.save(tmp_path / "c", {"w": np.zeros((0, 3), np.float32)})
    empty = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (0, 3), (0, 0))
    assert cairn.load(tmp_path / "c", out={"w": empty})["w"] is empty
