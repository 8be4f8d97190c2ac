"""What the limits of a handler hold to, and what it copies, beside Orbax's: host arrays that change while they are saved, the default limits, and the memory of saves and restores."""

import inspect
import json
import os
import threading

import jax
import jax.numpy as jnp
import numpy as np
import orbax.checkpoint as ocp
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from orbax.checkpoint._src.serialization import limits

import cairn_cli
from test_handler_options import checkpointer
from test_pytree_handler import outcome

MIB = 1 << 20
DEVICES = 8
DEFAULT = 96 * 10**9  # bytes


def run(**job):
    [answer] = cairn_cli.answers("limits_tool", [job])
    return answer


# ---- host arrays ----
class Waiting(ocp.type_handlers.NumpyHandler):
    """Writes only when the array has been changed."""

    changed = threading.Event()

    async def _background_serialize(self, values, infos, args=None):
        assert self.changed.wait(60)
        return await super()._background_serialize(values, infos, args)


@pytest.mark.covers("type_handlers.NumpyHandler")
@pytest.mark.parametrize("deepcopy", [True, False])
def test_a_host_array_that_changes_after_the_call(scratch, deepcopy):
    """The writing waits on both sides until the caller has changed the array."""
    Waiting.changed.clear()
    registry = ocp.type_handlers.create_type_handler_registry((np.ndarray, Waiting(deepcopy_host_arrays=deepcopy)))
    array = np.full(100000, 2, np.float32)
    with ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler(type_handler_registry=registry)) as saver:
        saver.save(scratch / "theirs", args=ocp.args.PyTreeSave({"w": array}))
        array[1] = 7
        Waiting.changed.set()
        saver.wait_until_finished()
    assert run(op="changed", dir=str(scratch / "ours"), deepcopy=deepcopy) is None
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
        theirs, ours = reader.restore(scratch / "theirs")["w"], reader.restore(scratch / "ours")["w"]
    assert theirs[1] == (2 if deepcopy else 7)
    np.testing.assert_array_equal(ours, theirs)


# ---- defaults ----
def folder_of_one_chunk(path, size):
    """A checkpoint of int8 `w` (size) in one chunk that is not there."""
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=False)) as writer:
        writer.save(path, args=ocp.args.PyTreeSave({"w": jnp.zeros(4, jnp.int8)}))
    array = path / "w" / ".zarray"
    array.write_text(json.dumps(json.loads(array.read_text()) | {"shape": [size], "chunks": [size]}))
    return path


@pytest.mark.covers("pytree.PyTreeCheckpointHandler")
def test_the_default_limits(scratch, monkeypatch):
    """Each counts what it may hold at once, which must be less than the limit."""
    parameters = inspect.signature(ocp.PyTreeCheckpointHandler.__init__).parameters
    assert [parameters[name].default for name in ("save_concurrent_gb", "restore_concurrent_gb")] == [None, None]
    made = []
    monkeypatch.setattr(limits, "get_byte_limiter", lambda limit=None, make=limits.get_byte_limiter: made.append(limit) or make(limit))
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as theirs:
        theirs.save(scratch / "ckpt", args=ocp.args.PyTreeSave({"w": jnp.zeros(4)}))
        saving = [limit for limit in made if limit is not None]
        made.clear()
        folder = folder_of_one_chunk(scratch / "large", DEFAULT)
        made.clear()
        args = {"w": ocp.ArrayRestoreArgs(sharding=jax.sharding.SingleDeviceSharding(jax.devices()[0]))}
        _, error = outcome(lambda: theirs.restore(folder, args=ocp.args.PyTreeRestore(restore_args=args)))
        restoring = [limit for limit in made if limit is not None]
    assert saving == restoring == [DEFAULT]
    assert f"Requested more bytes than we reserved space for: {DEFAULT} > {DEFAULT}" in str(error)
    words = f"w: needs {DEFAULT} bytes at once, which must be less than the limit of {DEFAULT} bytes"
    for got in (run(op="restore_large", dir=str(folder)), run(op="save_large", dir=str(scratch / "saved"), shard_bytes=DEFAULT)):
        assert got["code"] == "invalid_argument" and words in got["error"], got
    below = run(op="save_large", dir=str(scratch / "below"), shard_bytes=DEFAULT - 1)
    assert "there are no elements" in below["error"], below


# ---- memory ----
@pytest.fixture
def in_flight(monkeypatch):
    """The most bytes that limiters of Orbax had handed out at once."""
    most = [0]

    class Counting(limits.LimitInFlightBytes):
        async def wait_for_bytes(self, requested_bytes):
            await super().wait_for_bytes(requested_bytes)
            most[0] = max(most[0], self._max_bytes - self._available_bytes)

    monkeypatch.setattr(limits, "LimitInFlightBytes", Counting)
    return most


SHARD = 16 * MIB
LIMIT = 3 * SHARD  # so that two shards fit
NO_LIMIT = 1 << 40
SLACK = 24 * MIB  # of the allocator, and of Cairn's own


def array_of(dtype):
    sharding = NamedSharding(Mesh(np.array(jax.devices()), ("x",)), PartitionSpec("x"))
    return jax.device_put(np.ones(DEVICES * SHARD // np.dtype(dtype).itemsize, dtype), sharding), sharding


@pytest.mark.covers(
    "pytree.PyTreeCheckpointHandler",
    note=(
        "A restore to another type counts the stored chunks. Orbax counts the bytes of the "
        "result."
    ),
)
def test_the_memory_of_a_save(scratch, in_flight):
    array, _ = array_of(np.int8)
    for limit in (LIMIT, NO_LIMIT):
        in_flight[0] = 0
        with checkpointer(save_concurrent_bytes=limit, use_compression=False) as theirs:
            theirs.save(scratch / f"theirs{limit}", args=ocp.args.PyTreeSave({"w": array}))
        ours = run(op="save_peak", dir=str(scratch / f"ours{limit}"), shards=DEVICES, shard_bytes=SHARD, save_concurrent_bytes=limit)["peak"]
        if limit == LIMIT:
            assert 0 < in_flight[0] < limit and ours < limit + SLACK, (in_flight, ours)
        else:
            assert in_flight[0] > LIMIT and ours > LIMIT + SLACK, (in_flight, ours)


@pytest.mark.covers("pytree.PyTreeCheckpointHandler")
def test_the_memory_of_a_restore(scratch, in_flight):
    """Of float32 as int8, so that what is read is not what is returned. Orbax counts the bytes of the result, Cairn the chunks that it holds.

    Without a limit, Cairn holds a usual chunk for each core, and at least three.
    """
    array, sharding = array_of(np.float32)
    with checkpointer(use_compression=False) as theirs:
        theirs.save(scratch / "ckpt", args=ocp.args.PyTreeSave({"w": array}))
    args = {"w": ocp.ArrayRestoreArgs(sharding=sharding, dtype=np.dtype(np.int8))}
    result = array.nbytes // 4
    one_shard = SHARD + MIB
    for limit in (one_shard, NO_LIMIT):
        in_flight[0] = 0
        with checkpointer(restore_concurrent_bytes=limit // 4) as theirs:
            theirs.restore(scratch / "ckpt", args=ocp.args.PyTreeRestore(restore_args=args))
        ours = run(op="restore_peak", dir=str(scratch / "ckpt"), shards=DEVICES, restore_concurrent_bytes=limit)["peak"] - result
        if limit == one_shard:
            assert 0 < in_flight[0] < limit // 4 and ours < limit + SLACK, (in_flight, ours)
        else:
            cores = len(os.sched_getaffinity(0))
            assert in_flight[0] > one_shard // 4 and one_shard + SLACK < ours < max(3, min(16, cores)) * SHARD + SLACK, (in_flight, ours)
