"""What the checkpoint handler asks of type handlers, what it tells them about a leaf, and when it fails, beside the real package."""

import os

import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from etils import epath
from orbax.checkpoint import type_handlers
from orbax.checkpoint._src.handlers import base_pytree_checkpoint_handler
from orbax.checkpoint._src.serialization import jax_array_handlers, types

import test_handler_parts
import tree_json
from test_pytree_handler import outcome, run

FRESH = int(os.environ["CAIRN_SEED"])


class Counting(type_handlers.StringHandler):
    """A handler of strings that notes its calls."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def typestr(self):
        return "counted"

    async def metadata(self, infos):
        self.calls.append(["metadata", len(infos)])
        return await super().metadata(infos)

    async def serialize(self, values, infos, args=None):
        self.calls.append(["serialize", len(values), infos[0].value_typestr])
        return await super().serialize(values, infos, args)

    async def deserialize(self, infos, args=None):
        self.calls.append(["deserialize", len(infos)])
        return await super().deserialize(infos, args)

    def finalize(self, directory):
        self.calls.append(["finalize", str(directory)])


@pytest.mark.covers("type_handlers.ParamInfo", note="`value_typestr` is also set in a restore.")
@pytest.mark.covers(
    "type_handlers.TypeHandler",
    note="`finalize` is called at the end of a save. Orbax 0.12.8 never calls it.",
)
@pytest.mark.parametrize("tree", [{"a": "x", "b": {"c": "y", "d": ["z", "w"]}, "n": 3}, {"a": "one"}, {"n": np.arange(3)}], ids=["four", "one", "none"])
def test_one_call_for_all_leaves_of_a_handler(scratch, tree):
    counting = Counting()
    registry = type_handlers.create_type_handler_registry((int, type_handlers.ScalarHandler()), (np.ndarray, type_handlers.NumpyHandler()), (str, counting))
    handler = ocp.PyTreeCheckpointHandler(type_handler_registry=registry)
    theirs, ours = epath.Path(scratch / "theirs"), str(scratch / "ours")
    theirs.mkdir()
    want = []
    for call in (lambda: (handler.save(theirs, args=ocp.args.PyTreeSave(tree)), handler.finalize(theirs)), lambda: handler.metadata(theirs),
                 lambda: handler.restore(theirs, args=ocp.args.PyTreeRestore())):
        call()
        want.append(list(counting.calls))
        counting.calls.clear()
    got = [answer["calls"] for answer in run([{"op": op, "dir": ours, "item": tree_json.to_json(tree), "calls": True} for op in ("save", "metadata", "restore")])]
    # 0.12.8 has TypeHandler.finalize, but never calls it.
    assert got[0].pop() == ["finalize", ours]
    assert got == want and "finalize" not in str(want)
    assert ("counted" in (scratch / "ours" / "_METADATA").read_text()) == ("counted" in (scratch / "theirs" / "_METADATA").read_text()) == (len(want[1]) > 0)


@pytest.mark.covers("type_handlers.ParamInfo")
def test_typestrs_of_leaves(scratch):
    """As a legacy_transform_fn gets them: Cairn knows them, Orbax tells them to a save alone (see the test above)."""
    tree = {"array": np.arange(3), "device": jnp.arange(4), "number": 3, "text": "x", "half": np.float16(1)}
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(scratch / "ckpt", args=ocp.args.PyTreeSave(tree))
    found = {}

    def note(item, structure, infos):
        found.update({name: (structure[name].value_type, info.value_typestr) for name, info in infos.items()})
        return structure, infos

    args = {name: ocp.RestoreArgs() for name in tree}
    ocp.PyTreeCheckpointHandler().restore(scratch / "ckpt", args=ocp.args.PyTreeRestore(tree, restore_args=args, legacy_transform_fn=note))
    [got] = run([{"op": "restore", "dir": str(scratch / "ckpt"), "item": tree_json.to_json(tree), "restore_args": tree_json.to_json(args), "infos": True}])
    assert found == {name: (typestr, None) for name, typestr in got["typestrs"].items()}


@pytest.mark.covers("type_handlers.ParamInfo")
def test_leaves_of_a_call_are_of_one_checkpoint():
    rng = np.random.default_rng([FRESH, 41])
    cases = [[[True, False, None][rng.integers(3)] for _ in range(rng.integers(1, 4))] for _ in range(100)] + [[True], [False, False], [None], [True, False]]
    seen = set()
    for flags, got in zip(cases, test_handler_parts.run([{"op": "flags", "of": flags} for flags in cases]), strict=True):
        infos = [types.ParamInfo(name="leaf", parent_dir=epath.Path("/item"), is_ocdbt_checkpoint=flag) for flag in flags]
        _, error = outcome(lambda: jax_array_handlers._validate_ocdbt_settings(infos))
        assert (error is None) == (got is None), (flags, error, got)
        if error is not None:
            assert isinstance(error, ValueError) and got["code"] == "invalid_argument" and "leaf: whether the checkpoint uses OCDBT" in got["error"], got
        seen.add("good" if error is None else "None" if "None" in str(error).split(".")[0] and "match" not in str(error) else "match")
    assert seen == {"good", "None", "match"}


@pytest.mark.covers("pytree.PyTreeCheckpointHandler")
def test_a_failure_in_the_background_comes_with_the_future(scratch):
    """A folder in the way of the database's manifest is found when the values are written, after the call has returned."""
    for name in ("theirs", "ours"):
        for blocked in ("manifest.ocdbt", "ocdbt.process_0/manifest.ocdbt"):
            (scratch / name / blocked / "in the way").mkdir(parents=True)
    handler = base_pytree_checkpoint_handler.BasePyTreeCheckpointHandler()

    async def save():
        return await handler.async_save(epath.Path(scratch / "theirs"), base_pytree_checkpoint_handler.BasePyTreeSaveArgs({"a": np.arange(5)}))

    import asyncio

    futures = asyncio.run(save())
    _, error = outcome(lambda: [future.result() for future in futures])
    assert isinstance(error, ValueError) and "manifest.ocdbt" in str(error), repr(error)
    [got] = run([{"op": "async_save", "dir": str(scratch / "ours"), "item": tree_json.to_json({"a": np.arange(5)}), "late": True}])
    assert got["code"] in ("io", "already_exists") and got["error"].startswith("late: ") and "manifest.ocdbt" in got["error"], got
