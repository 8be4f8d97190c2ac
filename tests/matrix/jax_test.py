"""Arrays of JAX: types, shardings, random keys, trees of JAX's registry."""

import collections
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import NamedSharding, PartitionSpec

import cairn
from matrix_trees import SMALL, arrays_of, bits, same

WIDE = ["bool", "int8", "int32", "uint8", "uint32", "float16", "float32", "complex64"]
SPECS = [PartitionSpec(), PartitionSpec("x"), PartitionSpec("y", "x"), PartitionSpec(("x", "y"))]
Moments = collections.namedtuple("Moments", "mu nu")


@jax.tree_util.register_pytree_node_class
@dataclasses.dataclass
class State:
    params: dict
    step: int

    def tree_flatten(self):
        return (self.params, self.step), None

    @classmethod
    def tree_unflatten(cls, _, children):
        return cls(*children)


@pytest.mark.parametrize("name", WIDE + SMALL)
def test_types(tmp_path, name):
    array = jnp.asarray(bits(name))
    cairn.save(tmp_path / "c", {"a": array})
    found = cairn.load(tmp_path / "c", {"a": array})["a"]
    assert isinstance(found, jax.Array)
    same(found, array)
    same(cairn.load(tmp_path / "c")["a"], bits(name))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_saved_in_one_sharding_and_restored_in_others(tmp_path, mesh, spec):
    array = jax.device_put(
        np.arange(64.0, dtype=np.float32).reshape(8, 8), NamedSharding(mesh, spec)
    )
    cairn.save(tmp_path / "c", {"a": array})
    for other in SPECS:
        sharding = NamedSharding(mesh, other)
        target = jax.ShapeDtypeStruct((8, 8), np.float32, sharding=sharding)
        for found in (
            cairn.load(tmp_path / "c", {"a": target})["a"],
            cairn.open(tmp_path / "c")["a"].jax(sharding=sharding),
        ):
            assert found.sharding == sharding
            same(found, array)


def test_random_keys(tmp_path):
    key = jax.random.key(7)
    tree = {"key": key, "keys": jax.random.split(key, 3)}
    cairn.save(tmp_path / "c", tree)
    for found in (cairn.load(tmp_path / "c", framework="jax"), cairn.load(tmp_path / "c", tree)):
        assert found["key"].dtype == key.dtype
        same(jax.random.key_data(found["keys"]), jax.random.key_data(tree["keys"]))


def test_containers(tmp_path):
    state = State({"w": jnp.arange(6.0), "moments": Moments(jnp.ones(2), np.zeros(3))}, 5)
    cairn.save(tmp_path / "c", state)
    found = cairn.load(tmp_path / "c", state)
    assert isinstance(found, State) and isinstance(found.params["moments"], Moments)
    same(found.params, state.params)
    assert found.step == 5


def test_donated_and_changed_arrays_are_saved_as_they_were(tmp_path):
    arrays = {name: jnp.asarray(array) for name, array in arrays_of(WIDE).items()}
    pending = cairn.save_async(tmp_path / "c", arrays)
    for array in arrays.values():
        array.delete()
    pending.wait()
    same(cairn.load(tmp_path / "c"), arrays_of(WIDE))
