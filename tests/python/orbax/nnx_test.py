"""States of flax.nnx, whose nested dicts come out as States, in restores of a part of them."""

import jax
import jax.numpy as jnp
import orbax.checkpoint as real
import pytest
from flax import nnx
from trees import outcome, plain

import cairn.orbax as ours


class Inner(nnx.Module):
    def __init__(self):
        self.kernel = nnx.Param(jnp.ones((2, 2)))
        self.lora = nnx.LoRAParam(jnp.full((2,), 3.0))


class Net(nnx.Module):
    def __init__(self):
        self.w1 = Inner()
        self.w2 = nnx.List([Inner(), Inner()])
        self.count = nnx.BatchStat(jnp.zeros((), jnp.int32))


FULL = nnx.state(Net())
PARTS = {
    "all": FULL,
    "lora": nnx.state(Net(), nnx.LoRAParam),
    "counts": nnx.state(Net(), nnx.BatchStat),
    "a dict": {"w1": {"lora": jnp.zeros(2)}},
    "plain": nnx.to_pure_dict(nnx.state(Net(), nnx.LoRAParam)),
}


def changed(tree):
    return jax.tree.map(lambda leaf: leaf + 5, tree)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("given", ["no arguments", "arguments", "arguments of all"])
def test_partial_restores(part, given, tmp_path):
    target = PARTS[part]
    real.PyTreeCheckpointer().save(tmp_path / "c", changed(FULL))

    def restored(ocp):
        arguments = None
        if given != "no arguments":
            tree = FULL if given == "arguments of all" else target
            arguments = ocp.checkpoint_utils.construct_restore_args(tree)
        args = ocp.args.PyTreeRestore(target, restore_args=arguments, partial_restore=True)
        return ocp.PyTreeCheckpointer().restore(tmp_path / "c", args=args)

    found, expected = (outcome(lambda ocp=ocp: restored(ocp)) for ocp in (ours, real))
    assert found == expected
    if part in ("all", "lora", "counts"):
        assert found == plain(changed(target))


@pytest.mark.parametrize("part", ["all", "lora", "counts"])
def test_partial_loads(v1, part, tmp_path):
    target = PARTS[part]
    v1.save(tmp_path / "c", changed(FULL))
    context = v1.Context()
    context.pytree.loading.partial_load = True
    with context:
        restored = v1.load(tmp_path / "c", target)
    assert plain(restored) == plain(changed(target))


def test_trimmed_states_keep_their_structure(ocp):
    target = PARTS["lora"]
    arguments = ocp.checkpoint_utils.construct_restore_args(FULL)
    trimmed = ocp.tree.tree_trim(target, arguments)
    assert jax.tree.structure(trimmed) == jax.tree.structure(target)
    kinds = {type(leaf).__name__ for leaf in jax.tree.leaves(trimmed)}
    assert kinds == {"ArrayRestoreArgs"}
    parts = ocp.tree.tree_trim(FULL, target, strict=False)
    assert jax.tree.structure(parts.unsafe_structure) == jax.tree.structure(FULL)
    missing = [leaf for leaf in jax.tree.leaves(parts.unsafe_structure) if leaf is ...]
    assert len(missing) == 4 and not parts.is_empty()
    with pytest.raises(ValueError, match="not complete"):
        assert parts.full_structure
