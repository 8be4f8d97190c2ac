"""`cairn convert --transform`: what it makes of checkpoints of the real Orbax, Orbax restores; beside NumPy doing the same."""

import json

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import pytest

import cairn_cli

LORA = {
    "rules": [
        {"drop": "opt_state/.*"},
        {"add_low_rank": r"params/layers/(\d+)/(\w+)/kernel", "a": r"lora/\1/\2/a", "b": r"lora/\1/\2/b", "scale": 0.5},
        {"stack": r"params/layers/(?P<index>\d+)/(.*)", "to": r"params/layers/\2"},
        {"cast": "params/.*", "dtype": "bfloat16"},
    ]
}


def checkpointer():
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler())


def random_tree(rng, layers=3):
    def matrix(*shape):
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "params": {"layers": [{name: {"kernel": jnp.asarray(matrix(40, 24)), "bias": matrix(24)} for name in ("q", "v")} for _ in range(layers)]},
        "lora": [{name: {"a": matrix(40, 4), "b": matrix(4, 24)} for name in ("q", "v")} for _ in range(layers)],
        "opt_state": {"mu": matrix(40, 24), "count": 3},
        "step": 7,
    }


def write_rules(folder, rules):
    path = folder / "rules.json"
    path.write_text(json.dumps(rules))
    return path


@pytest.mark.parametrize("memory", ["1KB", "1GB"])
def test_a_lora_is_merged_and_layers_stacked(scratch, memory):
    tree = random_tree(np.random.default_rng(1))
    checkpointer().save(scratch / "from", args=ocp.args.PyTreeSave(tree))
    rules = write_rules(scratch, LORA)
    cairn_cli.run("convert", scratch / "from", scratch / "to", "--to", "orbax", "--transform", rules, "--memory", memory)
    out = checkpointer().restore(scratch / "to")
    assert sorted(out) == ["params", "step"] and out["step"] == 7
    for name in ("q", "v"):
        merged = []
        for layer, lora in zip(tree["params"]["layers"], tree["lora"]):
            product = lora[name]["a"].astype(np.float64) @ lora[name]["b"].astype(np.float64)
            merged.append((np.asarray(layer[name]["kernel"], np.float64) + 0.5 * product).astype(np.float32))
        kernel = out["params"]["layers"][name]["kernel"]
        assert kernel.dtype == ml_dtypes.bfloat16 and kernel.shape == (3, 40, 24)
        # The sums are taken in another order than BLAS takes them: in the last of 53 bits, which float32 seldom shows.
        np.testing.assert_allclose(kernel.astype(np.float32), np.stack(merged), rtol=2**-8)
        bias = np.stack([layer[name]["bias"] for layer in tree["params"]["layers"]]).astype(ml_dtypes.bfloat16)
        assert out["params"]["layers"][name]["bias"].tobytes() == bias.tobytes()


def test_moves_and_casts_are_exact(scratch):
    rng = np.random.default_rng(2)
    tree = {"qkv": rng.standard_normal((6, 30)).astype(np.float32), "layers": rng.integers(-9, 9, (4, 5, 3)).astype(np.int16),
            "w": rng.standard_normal((7, 3, 5)).astype(np.float32), "s": "text", "lr": 0.5}
    checkpointer().save(scratch / "from", args=ocp.args.PyTreeSave(tree))
    rules = write_rules(scratch, {"rules": [
        {"split": "qkv", "to": ["q", "k", "v"], "axis": -1, "sizes": [10, 5, 15]},
        {"concatenate": "k", "with": ["v"], "to": "kv", "axis": 1},
        {"unstack": "layers", "to": "layers/{index}/w", "axis": 1},
        {"transpose": "w", "axes": [2, 0, 1]},
        {"cast": "w", "dtype": "float16"},
        {"rename": "s", "to": "meta/note"},
    ]})
    for target, memory in (("a", "1KB"), ("b", "1GB")):
        cairn_cli.run("convert", scratch / "from", scratch / target, "--to", "orbax-zarr3", "--transform", rules, "--memory", memory)
        out = checkpointer().restore(scratch / target)
        wanted = {"q": tree["qkv"][:, :10], "kv": tree["qkv"][:, 10:], "layers": {str(i): {"w": tree["layers"][:, i]} for i in range(5)},
                  "w": tree["w"].transpose(2, 0, 1).astype(np.float16), "meta": {"note": "text"}, "lr": 0.5}
        assert jax.tree.structure(out) == jax.tree.structure(wanted)
        for ours, theirs in zip(jax.tree.leaves(out), jax.tree.leaves(wanted)):
            if isinstance(theirs, np.ndarray):
                assert ours.dtype == theirs.dtype and ours.shape == theirs.shape and ours.tobytes() == theirs.tobytes()
            else:
                assert ours == theirs


def test_a_dry_run_says_what_it_would_do(scratch):
    checkpointer().save(scratch / "from", args=ocp.args.PyTreeSave(random_tree(np.random.default_rng(3))))
    rules = write_rules(scratch, LORA)
    text = cairn_cli.run("convert", scratch / "from", scratch / "to", "--to", "orbax", "--transform", rules, "--dry-run").stdout.decode()
    assert "params.layers.0.q.kernel + 0.5 * lora.0.q.a @ lora.0.q.b" in text
    assert "stack(" in text and "concatenate(" not in text
    assert "not read opt_state.mu" in text and "params.layers.q.kernel bfloat16(3, 40, 24)" in text
    assert not (scratch / "to").exists()


def test_a_wrong_rule_names_its_place(scratch):
    checkpointer().save(scratch / "from", args=ocp.args.PyTreeSave({"a": np.ones(3)}))
    for rules, why in (({"rules": [{"drop": "a"}, {"drop": "b"}]}, "/rules/1"), ({"rules": [{"drob": "a"}]}, "/rules/0")):
        done = cairn_cli.call("convert", scratch / "from", scratch / "to", "--to", "orbax", "--transform", write_rules(scratch, rules))
        assert done.returncode in (cairn_cli.USAGE, cairn_cli.IO)
        assert why in done.stderr.decode() and "rules.json" in done.stderr.decode()
        assert not (scratch / "to").exists()
