"""flax: msgpack files, flax.training.checkpoints, and a TrainState."""

import flax
import flax.linen as nn
import flax.training.checkpoints as checkpoints
import flax.training.train_state
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import cairn
from matrix_trees import DTYPES, arrays_of, bits, same

TREE = {
    "arrays": arrays_of([name for name in DTYPES if name != "bool"]),
    "half": bits("bfloat16"),
    "n": 3,
    "x": 2.5,
    "s": "text",
    "inner": {"mask": bits("bool")},
}


class Model(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(3)(nn.LayerNorm()(nn.Dense(4)(x)))


def train_state():
    model = Model()
    params = model.init(jax.random.PRNGKey(0), jnp.ones((1, 5)))["params"]
    state = flax.training.train_state.TrainState.create(
        apply_fn=model.apply, params=params, tx=optax.adam(1e-3)
    )
    return state.apply_gradients(grads=jax.tree_util.tree_map(jnp.ones_like, params))


def leaves(tree):
    return jax.tree_util.tree_leaves(tree)


def test_msgpack_files(tmp_path):
    cairn.save(tmp_path / "ours.msgpack", TREE)
    ours = (tmp_path / "ours.msgpack").read_bytes()
    same(flax.serialization.msgpack_restore(ours), TREE)
    sorted_tree = jax.tree_util.tree_map(lambda leaf: leaf, TREE)  # as to_bytes of a state has it
    assert ours == flax.serialization.msgpack_serialize(sorted_tree)
    (tmp_path / "theirs.msgpack").write_bytes(flax.serialization.msgpack_serialize(TREE))
    same(cairn.load(tmp_path / "theirs.msgpack"), TREE)


@pytest.mark.parametrize("through_orbax", [False, True])
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_training_checkpoints(tmp_path, through_orbax):
    flax.config.update("flax_use_orbax_checkpointing", through_orbax)
    state = train_state()
    for step in (1, 2):
        checkpoints.save_checkpoint(str(tmp_path), state, step, keep=2)
    path = checkpoints.latest_checkpoint(str(tmp_path))
    assert path.endswith("checkpoint_2")
    found = cairn.load(path, state) if through_orbax else cairn.load(path)
    same(leaves(found["params"] if isinstance(found, dict) else found.params), leaves(state.params))
    expected = flax.serialization.to_state_dict(state)
    same(leaves(cairn.load(path)["opt_state"]), leaves(expected["opt_state"]))


def test_a_train_state(tmp_path):
    state = train_state()
    cairn.save(tmp_path / "c", state)
    found = cairn.load(tmp_path / "c", state)
    assert type(found) is type(state) and int(found.step) == int(state.step)
    assert jax.tree_util.tree_structure(found) == jax.tree_util.tree_structure(state)
    same(leaves(found), leaves(state))


def test_flax_restores_files_of_cairn_into_a_train_state(tmp_path):
    state = train_state()
    cairn.save(tmp_path / "c.msgpack", flax.serialization.to_state_dict(state))
    found = flax.serialization.from_bytes(state, (tmp_path / "c.msgpack").read_bytes())
    same(leaves(found), leaves(state))
    np.testing.assert_array_equal(
        found.apply_fn({"params": found.params}, jnp.ones((1, 5))),
        state.apply_fn({"params": state.params}, jnp.ones((1, 5))),
    )
