"""MsgpackHandler beside Orbax's: the same bytes for a tree, and the same tree for bytes."""

import asyncio
import os

import numpy as np
import pytest
from orbax.checkpoint import aggregate_handlers
from orbax.checkpoint._src.metadata import tree as tree_metadata

import random_trees
import tree_json
from test_pytree_handler import NICE, run

FRESH = int(os.environ["CAIRN_SEED"])


def leaf(rng):
    kind = rng.random()
    if kind < 0.5:
        shape = tuple(int(n) for n in rng.integers(1, 4, rng.integers(0, 3)))
        return rng.integers(0, 100, shape).astype(NICE[rng.integers(len(NICE))])
    if kind < 0.9:
        return [5, 2.5, True, "text", "\u00fc", np.float32(1.5), np.int16(7)][rng.integers(7)]
    return [None, {}, []][rng.integers(3)]


def tree(rng, depth=3):
    if depth == 0 or (depth < 3 and rng.random() < 0.4):
        return leaf(rng)
    children = [tree(rng, depth - 1) for _ in range(rng.integers(1, 4))]
    kind = rng.random() if depth < 3 else 0
    if kind < 0.6:
        return dict(zip([str(key) for key in rng.choice(random_trees.PLAIN_KEYS, len(children), replace=False)], children))
    if kind < 0.75:
        return children
    return tuple(children) if kind < 0.9 else random_trees.Pair(children[0], children[-1])


def write(handler, path, item):
    async def work():
        (await handler.serialize(path, item)).result()

    asyncio.run(work())


@pytest.mark.covers("pytree.AggregateHandler", note="C++ has paths and trees in place of futures.")
@pytest.mark.parametrize("seed", [0, 1, FRESH])
def test_bytes_and_trees(scratch, seed):
    rng = np.random.default_rng([seed, 31])
    handler = aggregate_handlers.MsgpackHandler()
    trees = [tree(rng) for _ in range(60)]
    for number, item in enumerate(trees):
        write(handler, scratch / f"theirs{number}", item)
    saved = run([{"op": "aggregate_save", "dir": str(scratch / f"ours{number}"), "item": tree_json.to_json(item)} for number, item in enumerate(trees)])
    assert saved == [{"done": True}] * len(trees)
    restored = run([{"op": "aggregate_restore", "dir": str(scratch / f"theirs{number}")} for number in range(len(trees))])
    for number, (item, got) in enumerate(zip(trees, restored)):
        assert (scratch / f"ours{number}").read_bytes() == (scratch / f"theirs{number}").read_bytes(), item
        assert tree_json.normal(got["tree"]) == tree_json.normal(tree_json.to_json(handler.deserialize(scratch / f"theirs{number}"))), item


@pytest.mark.covers("pytree.AggregateHandler")
def test_errors(scratch):
    handler = aggregate_handlers.MsgpackHandler()
    with pytest.raises(FileNotFoundError):
        handler.deserialize(scratch / "none")
    [got] = run([{"op": "aggregate_restore", "dir": str(scratch / "none")}])
    assert got["code"] == "not_found" and "none" in got["error"]
    rich = aggregate_handlers.MsgpackHandler(pytree_metadata_options=tree_metadata.PyTreeMetadataOptions(support_rich_types=True))
    with pytest.raises(NotImplementedError):
        write(rich, scratch / "rich", {"a": 1})
    [got] = run([{"op": "aggregate_save", "dir": str(scratch / "rich"), "item": tree_json.to_json({"a": 1}), "rich": True}])
    assert got["code"] == "unimplemented"


@pytest.mark.covers("pytree.AggregateHandler")
@pytest.mark.parametrize("primary", [0, 1])
def test_the_primary_writes(scratch, primary):
    """The real one runs in process 0."""
    write(aggregate_handlers.MsgpackHandler(primary_host=primary), scratch / "theirs", {"a": 1})
    [got] = run([{"op": "aggregate_save", "dir": str(scratch / "ours"), "item": tree_json.to_json({"a": 1}), "primary": primary}])
    assert got == {"done": True}
    assert (scratch / "ours0").exists() == (scratch / "theirs").exists() == (primary == 0)
    assert (scratch / "ours1").exists() == (primary == 1)
