"""The chunk shapes of an older SaveArgs: the real Orbax, which has them no more, restores what Cairn saves with them."""

import collections
import json
import pathlib
import re

import jax
import numpy as np
import orbax.checkpoint as ocp
import pytest
import tensorstore as ts
from jax.sharding import Mesh, NamedSharding, PartitionSpec

import tree_json
from test_pytree_handler import run

WHOLE = np.arange(8 * 12, dtype=np.float32).reshape(8, 12)
MESH = Mesh(np.array(jax.devices()[:2]), ("x",))


@pytest.mark.covers(
    "type_handlers.SaveArgs",
    note=(
        "`write_chunk_shape` and `read_chunk_shape` are Orbax's of 2024 (0.5.23); 0.12.8 restores"
        " such arrays. Without `read_chunk_shape`, a shard has one chunk."
    ),
)
@pytest.mark.covers(
    "type_handlers.SaveArgs",
    note=(
        "`chunk_byte_size` beside `write_chunk_shape` is ignored (event "
        "`save.chunk_byte_size_ignored`)."
    ),
)
@pytest.mark.parametrize("ocdbt", [True, False])
@pytest.mark.parametrize("write, read, shard, chunk", [
    ([4, 6], [2, 3], [4, 6], [2, 3]),
    ([4, 12], None, [4, 12], [4, 12]),
    (None, [1, 4], None, [1, 4]),
])
@pytest.mark.parametrize("kind", ["np.ndarray", "jax.Array"])
def test_orbax_restores_them(scratch, ocdbt, write, read, shard, chunk, kind):
    array = WHOLE if kind == "np.ndarray" else jax.device_put(WHOLE, NamedSharding(MESH, PartitionSpec("x")))
    piece = [8, 12] if kind == "np.ndarray" else [4, 12]
    tree = {"a": array}
    # chunk_byte_size is passed over beside them.
    args = {"save_args": {"write_chunk_shape": write, "read_chunk_shape": read, "chunk_byte_size": 4}}
    options = {"use_ocdbt": ocdbt, "use_zarr3": True}
    job = {"dir": str(scratch / "ckpt"), "options": options}
    saved, restored, described = run([job | {"op": "save", "item": tree_json.to_json(tree), "save_args": {"dict": [["a", args]]}}, job | {"op": "restore"},
                                      job | {"op": "metadata"}])
    assert saved == {"done": True}
    assert tree_json.normal(restored["tree"]) == tree_json.normal(tree_json.to_json(tree))
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        got = checkpointer.restore(scratch / "ckpt")["a"]
        assert isinstance(got, type(array)) and np.array_equal(np.asarray(got), WHOLE)
        # Part of it, by another sharding.
        other = NamedSharding(MESH, PartitionSpec(None, "x"))
        got = checkpointer.restore(scratch / "ckpt", args=ocp.args.PyTreeRestore(restore_args={"a": ocp.ArrayRestoreArgs(sharding=other)}))["a"]
        assert np.array_equal(np.asarray(got), WHOLE) and got.sharding == other
        theirs = checkpointer.metadata(scratch / "ckpt").item_metadata.tree["a"]
    base = {"driver": "file", "path": str(scratch / "ckpt")}
    spec = {"driver": "zarr3", "kvstore": {"driver": "ocdbt", "base": base, "path": "a/"} if ocdbt else base | {"path": base["path"] + "/a/"}}
    layout = ts.open(spec, open=True).result().chunk_layout
    assert list(layout.write_chunk.shape) == (shard or piece) and list(layout.read_chunk.shape) == chunk
    ours = dict(described["tree"]["dict"])["a"]["metadata"]
    assert ours["chunk_shape"] == list(theirs.storage.chunk_shape) == chunk


@pytest.mark.covers("type_handlers.SaveArgs", alone=True)
def test_an_ignored_chunk_byte_size(scratch):
    """0.5.23 warns: "`chunk_byte_size` will be ignored"; Cairn tells the observer."""
    for given, expected in (({}, []), ({"chunk_byte_size": 4}, [("a", 1)])):
        args = {"save_args": {"write_chunk_shape": [4, 6]} | given}
        [saved] = run([{"op": "save", "dir": str(scratch / str(len(given))), "options": {"use_zarr3": True}, "item": tree_json.to_json({"a": WHOLE}),
                        "save_args": {"dict": [["a", args]]}, "events": True}])
        assert [(event["leaf"], event["leaves"]) for event in saved["events"] if event["event"] == "save.chunk_byte_size_ignored"] == expected
        assert not any(event["event"] == "save.small_chunks" for event in saved["events"])


# What 0.5.23 says, and Cairn.
REFUSALS = {
    r"^Zarr3 is not enabled when": "a: write_chunk_shape and read_chunk_shape are for Zarr v3",
    r"^write_chunk_shape=(.*) is not a divisor of shard_shape=(.*)$": r"a: write_chunk_shape \1 does not divide the pieces that the array is written in, \2",
    r"^read_chunk_shape=(.*) is not a divisor of write_chunk_shape=(.*)$": r"a: read_chunk_shape \1 does not divide .*, \2",
}


@pytest.mark.covers("type_handlers.SaveArgs")
def test_the_version_of_2024_refuses_the_same(scratch):
    """make_chunk_shapes.py asked it."""
    cases = json.loads(pathlib.Path(__file__).with_name("chunk_shapes_0_5_23.json").read_text())
    jobs = []
    for number, case in enumerate(cases):
        args = {"save_args": {name: case[name] for name in ("write_chunk_shape", "read_chunk_shape")}}
        jobs.append({"op": "save", "dir": str(scratch / str(number)), "options": {"use_zarr3": case["use_zarr3"]},
                     "item": tree_json.to_json({"a": np.zeros(case["piece"], np.float32)}), "save_args": {"dict": [["a", args]]}})
    refused = collections.Counter()
    for case, got in zip(cases, run(jobs)):
        if case["error"] is None:
            assert got == {"done": True}, (case, got)
            continue
        [(theirs, ours)] = [(re.match(theirs, case["error"]), ours) for theirs, ours in REFUSALS.items() if re.match(theirs, case["error"])]
        words = re.sub(r"\\(\d)", lambda group: re.escape(theirs.group(int(group[1]))), ours)
        assert got["code"] == "invalid_argument" and re.search(words, got["error"]), (case, got)
        refused[ours] += 1
    assert len(refused) == 3 and min(refused.values()) > 10, refused
