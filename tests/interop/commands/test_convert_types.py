"""Tuples and named tuples that Orbax records with support_rich_types: conversions to Orbax keep them, or say that they do not."""

import collections
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import orbax.checkpoint as ocp
import pytest
from orbax.checkpoint._src.metadata import pytree_metadata_options

import cairn_cli

Pair = collections.namedtuple("Pair", ["zeta", "alpha"])
Empty = collections.namedtuple("Empty", [])
RICH = pytree_metadata_options.PyTreeMetadataOptions(support_rich_types=True)
TREE = {
    "pair": Pair(np.arange(4), (jnp.ones((2, 3)), {"in": [np.float32(1.5), ()]})),
    "tuple": (1, "text", None, {}),
    "list": [np.zeros(2), [np.ones(1)]],
    "empty": Empty(),
    "category": {"clazz": np.ones(2), "category": np.zeros(1)},
}


def handler():
    return ocp.PyTreeCheckpointHandler(pytree_metadata_options=RICH)


def types_of(path):
    """The recorded types: JSON inside the JSON. None if there are none."""
    text = json.loads((path / "_METADATA").read_text()).get("value_metadata_tree")
    return text and json.loads(text)


def save(path, tree=TREE):
    with ocp.Checkpointer(handler()) as checkpointer:
        checkpointer.save(path, tree)


def restored(path):
    with ocp.Checkpointer(handler()) as checkpointer:
        tree = checkpointer.restore(path)
    leaves = [np.asarray(leaf).tolist() for leaf in jax.tree_util.tree_leaves(tree)]
    return str(jax.tree_util.tree_structure(tree)), leaves


def convert(*arguments):
    return json.loads(cairn_cli.run("convert", "--json", *arguments).stdout)


@pytest.mark.parametrize("format", ["orbax", "orbax-zarr3", "orbax-files"])
def test_orbax_targets_keep_them(scratch, format):
    save(scratch / "a")
    report = convert("--to", format, scratch / "a", scratch / "b")
    assert report["left_out"] == []
    assert types_of(scratch / "a") == types_of(scratch / "b") is not None
    assert restored(scratch / "a") == restored(scratch / "b")
    assert cairn_cli.verify(scratch / "b")["findings"] == []


def test_a_cast_keeps_them(scratch):
    save(scratch / "a")
    convert("--to", "orbax", "--dtype", "bfloat16", scratch / "a", scratch / "b")
    assert types_of(scratch / "a") == types_of(scratch / "b")
    assert restored(scratch / "a")[0] == restored(scratch / "b")[0]


def test_resharding_keeps_them(scratch):
    save(scratch / "a")
    cairn_cli.run("reshard", "--mesh", "x=2", "--spec", "pair.alpha.0=x", scratch / "a", scratch / "b")
    assert restored(scratch / "a") == restored(scratch / "b")


def test_optax_states_keep_them(scratch):
    params = {"w": jnp.ones((3, 2)), "b": jnp.zeros(2)}
    save(scratch / "a", {"params": params, "opt": optax.adam(1e-3).init(params)})
    convert("--to", "orbax", scratch / "a", scratch / "b")
    assert types_of(scratch / "a") == types_of(scratch / "b") is not None
    assert restored(scratch / "a") == restored(scratch / "b")


def test_items_keep_their_own(scratch):
    with ocp.CheckpointManager(scratch / "run", item_handlers={"rich": handler(), "plain": ocp.PyTreeCheckpointHandler()}) as manager:
        manager.save(0, args=ocp.args.Composite(rich=ocp.args.PyTreeSave(TREE), plain=ocp.args.PyTreeSave({"a": (1, 2)})))
        manager.wait_until_finished()
    assert convert("--to", "orbax", scratch / "run" / "0", scratch / "all")["left_out"] == []
    assert types_of(scratch / "all" / "rich") == types_of(scratch / "run" / "0" / "rich") is not None
    assert types_of(scratch / "all" / "plain") is None
    convert("--to", "orbax", "--item", "rich", scratch / "run" / "0", scratch / "one")
    assert types_of(scratch / "one") == types_of(scratch / "run" / "0" / "rich")


@pytest.mark.parametrize("options", [("--exclude", "tuple.1"), ("--include", "pair.*"), ("--rename", "zeta=eta")], ids=" ".join)
def test_other_leaves_lose_them(scratch, options):
    save(scratch / "a")
    ((left_out),) = convert("--to", "orbax", *options, scratch / "a", scratch / "b")["left_out"]
    assert left_out["item"] == "rich types" and "fits only a tree with all leaves" in left_out["why"]
    assert types_of(scratch / "b") is None
    assert b"left out 'rich types': " in cairn_cli.run("convert", "--to", "orbax", *options, scratch / "a", scratch / "c").stderr
    cairn_cli.run("verify", scratch / "b")


def test_a_damaged_record_is_named(scratch):
    save(scratch / "a")
    metadata = json.loads((scratch / "a" / "_METADATA").read_text())
    metadata["value_metadata_tree"] = '{"category": "custom", "clazz": "unknown"}'
    (scratch / "a" / "_METADATA").write_text(json.dumps(metadata))
    ((left_out),) = convert("--to", "orbax", scratch / "a", scratch / "b")["left_out"]
    assert "unknown node of category 'custom' and class 'unknown'" in left_out["why"]
    assert types_of(scratch / "b") is None
