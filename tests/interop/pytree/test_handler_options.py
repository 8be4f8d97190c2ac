"""Options of PyTreeCheckpointHandler beside Orbax's: where the limits begin to refuse, and which arguments of SaveArgs are refused, with which words."""

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from orbax.checkpoint._src.handlers import base_pytree_checkpoint_handler

import tree_json
from test_pytree_handler import outcome, run

SIZE = 64  # bytes of each array
ARRAYS = {"jax": jnp.arange(16.0, dtype=jnp.float32), "numpy": np.arange(16, dtype=np.float32)}


def checkpointer(**options):
    impl = base_pytree_checkpoint_handler.BasePyTreeCheckpointHandler(**options)
    return ocp.Checkpointer(ocp.PyTreeCheckpointHandler(handler_impl=impl))


def same_refusal(error, got, theirs, ours):
    """Both work, or both refuse for the same reason."""
    if error is None:
        assert "error" not in got
        return
    assert theirs in str(error), error
    assert got["code"] == "invalid_argument" and ours in got["error"] and got["error"].startswith("a: "), got


@pytest.mark.covers(
    "type_handlers.ParamInfo", "type_handlers.NumpyHandler", "pytree.PyTreeCheckpointHandler",
)
@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("limit", [1, SIZE - 1, SIZE, SIZE + 1])
def test_limits_in_bytes(scratch, kind, limit):
    words = "Requested more bytes than we reserved space for", "which must be less than the limit of"
    tree = {"a": ARRAYS[kind]}
    with checkpointer(save_concurrent_bytes=limit) as limited:
        _, error = outcome(lambda: limited.save(scratch / "theirs", args=ocp.args.PyTreeSave(tree)))
    item = tree_json.to_json(tree)
    [got] = run([{"op": "save", "dir": str(scratch / "ours"), "options": {"save_concurrent_bytes": limit}, "item": item}])
    same_refusal(error, got, *words)
    assert (error is None) == (kind == "numpy" or limit > SIZE)

    with checkpointer() as free:
        free.save(scratch / "ckpt", args=ocp.args.PyTreeSave(tree))
    args = {"a": ocp.ArrayRestoreArgs(sharding=ARRAYS["jax"].sharding) if kind == "jax" else ocp.RestoreArgs(restore_type=np.ndarray)}
    with checkpointer(restore_concurrent_bytes=limit) as limited:
        _, error = outcome(lambda: limited.restore(scratch / "ckpt", args=ocp.args.PyTreeRestore(restore_args=args)))
    [got] = run([{"op": "restore", "dir": str(scratch / "ckpt"), "options": {"restore_concurrent_bytes": limit}, "restore_args": tree_json.to_json(args)}])
    same_refusal(error, got, *words)
    assert (error is None) == (kind == "numpy" or limit > SIZE)


@pytest.mark.covers("type_handlers.SaveArgs", "errors.save_args")
@pytest.mark.parametrize("kind", ARRAYS)
@pytest.mark.parametrize("args, theirs, ours", [
    ({"chunk_byte_size": 3}, "must be >= 4", "chunk"),
    ({"chunk_byte_size": 0}, "must be >= 4", "chunk"),
    ({"chunk_byte_size": -4}, "must be >= 4", "chunk"),
    ({"chunk_byte_size": 4}, "", ""),
    ({"shard_axes": (1,)}, "must be non-negative and less than rank=1", "axis 1"),
    ({"shard_axes": (-1,)}, "must be non-negative and less than rank=1", "axis -1"),
    ({"shard_axes": (0, 0)}, "", ""),
    ({"shard_axes": (0,), "chunk_byte_size": 3}, "must be >= 4", "chunk"),
])
def test_chunks_that_are_refused(scratch, kind, args, theirs, ours):
    tree, save_args = {"a": ARRAYS[kind]}, {"a": ocp.SaveArgs(**args)}
    with checkpointer() as free:
        _, error = outcome(lambda: free.save(scratch / "theirs", args=ocp.args.PyTreeSave(tree, save_args)))
    [got] = run([{"op": "save", "dir": str(scratch / "ours"), "item": tree_json.to_json(tree), "save_args": tree_json.to_json(save_args)}])
    same_refusal(error, got, theirs, ours)
    assert (error is None) == (theirs == "")


@pytest.mark.covers("pytree.PyTreeCheckpointHandler", "errors.handler_options")
@pytest.mark.parametrize("name", ["save_concurrent_gb", "restore_concurrent_gb", "save_device_host_concurrent_gb"])
@pytest.mark.parametrize("gigabytes", [0, -1, 1])
def test_gigabytes_are_positive(scratch, name, gigabytes):
    def save():
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**{name: gigabytes})) as theirs:
            theirs.save(scratch / "theirs", args=ocp.args.PyTreeSave({"a": ARRAYS["numpy"]}))
            theirs.restore(scratch / "theirs")

    _, error = outcome(save)
    [got] = run([{"op": "save", "dir": str(scratch / "ours"), "options": {name: gigabytes}, "item": tree_json.to_json({"a": ARRAYS["numpy"]})}])
    assert (error is None) == (gigabytes > 0) == ("error" not in got)
    if error is not None:
        assert "positive" in str(error) and got["code"] == "invalid_argument" and f"{name} is {gigabytes}; it must be positive" in got["error"]
