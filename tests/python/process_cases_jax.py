"""What each process of a job of jax.distributed does (processes.py). Each has two devices."""

import json
import os
import pathlib
import signal
import threading
import time

import cairn
import jax
import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
from processes import raised
from same import assert_same

VALUES = {
    "split": np.arange(64, dtype=np.float32).reshape(8, 8),
    "rows": np.random.default_rng(1).random((16, 6)).astype(ml_dtypes.bfloat16),
    "same": np.arange(24, dtype=np.int16).reshape(4, 6),
    "number": np.array(2.5, np.float32),
}
SPECS = {"split": P("x", "y"), "rows": P(("x", "y")), "same": P(), "number": P()}
HOST = {"array": np.arange(7), "step": 3, "name": "a text", "pair": (1, 2.5), "none": None}


def start(index, count, port):
    jax.config.update("jax_enable_x64", True)
    jax.distributed.initialize(f"127.0.0.1:{port}", count, index)


def mesh(names=("x", "y"), shape=(2, 2)):
    return Mesh(np.array(jax.devices()).reshape(shape), names)


def put(values, spec, on=None):
    return jax.make_array_from_callback(values.shape, NamedSharding(on or mesh(), spec), lambda index: values[index])


def tree():
    made = {name: put(values, SPECS[name]) for name, values in VALUES.items()}
    # Each process has other host values: those of process 0 are saved.
    host = HOST if jax.process_index() == 0 else {**HOST, "array": np.zeros(7, int), "step": 9}
    return {"sharded": made, "host": host}


def target(on, specs):
    """What to restore, on another mesh."""
    return {name: jax.ShapeDtypeStruct(v.shape, v.dtype, sharding=NamedSharding(on, specs[name])) for name, v in VALUES.items()}


def check(arrays):
    for name, values in VALUES.items():
        assert arrays[name].shape == values.shape and arrays[name].dtype == values.dtype, name
        for shard in arrays[name].addressable_shards:
            assert np.asarray(shard.data).tobytes() == values[shard.index].tobytes(), (name, shard.index)


OTHER = {"split": P(None, "a"), "rows": P(), "same": P("a"), "number": P()}


def save_and_restore(path):
    """Saves with Cairn; restores with Cairn and Orbax, on another mesh."""
    options = json.loads(pathlib.Path(path, "options.json").read_text())
    cairn.save(f"{path}/c", tree(), **options)
    other = mesh(("a",), (4,))
    wanted = {"sharded": target(other, OTHER), "host": {**HOST, "array": np.zeros(7, int), "step": 0, "name": ""}}
    loaded = cairn.load(f"{path}/c", wanted)
    check(loaded["sharded"])
    assert all(loaded["sharded"][name].sharding == NamedSharding(other, spec) for name, spec in OTHER.items())
    assert_same(loaded["host"], HOST)
    host = cairn.load(f"{path}/c")["host"]
    assert_same({**host, "pair": tuple(host["pair"])}, HOST)
    args = {"sharded": ocp.checkpoint_utils.construct_restore_args(wanted["sharded"]),
            "host": jax.tree.map(lambda leaf: ocp.RestoreArgs(), wanted["host"])}
    theirs = ocp.PyTreeCheckpointer().restore(f"{path}/c", args=ocp.args.PyTreeRestore(item=wanted, restore_args=args))
    check(theirs["sharded"])
    assert_same(theirs["host"], HOST)


def save_with_orbax(path):
    """Saves with Orbax; restores with Cairn."""
    ocp.PyTreeCheckpointer().save(path, tree())
    loaded = cairn.load(path, {"sharded": target(mesh(("a",), (4,)), OTHER)}, partial=True)
    check(loaded["sharded"])


def restore_what_one_process_saved(path):
    check(cairn.load(path, target(mesh(), SPECS)))


def keys(path):
    """Typed random keys on all devices."""
    split = jax.jit(lambda: jax.random.split(jax.random.key(7), 8), out_shardings=NamedSharding(mesh(), P("x")))()
    one = jax.jit(lambda: jax.random.key(3, impl="rbg"), out_shardings=NamedSharding(mesh(), P()))()
    cairn.save(path, {"split": split, "one": one})
    loaded = cairn.load(path, {"split": split, "one": one})
    for name, key in (("split", split), ("one", one)):
        assert loaded[name].dtype == key.dtype and loaded[name].sharding.is_equivalent_to(key.sharding, key.ndim)
        for a, b in zip(jax.random.key_data(loaded[name]).addressable_shards, jax.random.key_data(key).addressable_shards):
            assert np.array_equal(a.data, b.data)


def background(path):
    """Two saves at a time, whose steps do not mix."""
    pending = [cairn.save_async(f"{path}/{i}", {"a": put(np.full((8, 8), i), P("x", "y")), "i": i}) for i in range(2)]
    for one in reversed(pending) if jax.process_index() else pending:
        one.wait()
    return [cairn.load(f"{path}/{i}")["a"].tolist() == np.full((8, 8), i).tolist() for i in range(2)]


def manager(path):
    with cairn.CheckpointManager(path, max_to_keep=2, best_metric="loss", best_mode="min") as run:
        for step in range(4):
            assert run.save(step, {"w": put(np.full((8, 8), step), P("x", "y")), "step": step}, metrics={"loss": (step - 1) ** 2})
        run.wait_until_finished()
        steps, best = run.all_steps(), run.best_step()
        restored = run.restore(best, {"w": put(np.zeros((8, 8), int), P("y")), "step": 0})
        assert all((np.asarray(s.data) == best).all() for s in restored["w"].addressable_shards)
        run.delete(2)
        return [steps, best, run.all_steps()]


# ---- failures ----


def other_trees(path):
    made = {"a": put(VALUES["split"], P("x", "y") if jax.process_index() else P("x"))}
    return raised(cairn.save, path, made)


def a_leaf_that_one_cannot_save(path):
    bad = object() if jax.process_index() == 1 else 1
    return [raised(cairn.save, path, {"a": put(VALUES["split"], P("x")), "b": bad}), raised(cairn.save_async, path, {"b": bad}),
            raised(lambda: cairn.CheckpointManager(path + ".run").save(1, {"b": bad}))]


def not_all_come(path):
    """Process 1 does something else."""
    if jax.process_index() == 1:
        return None
    began = time.monotonic()
    result = raised(cairn.save, path, {"a": 1}, timeout=1)
    return [*result, time.monotonic() - began < 20]


def come_again(path):
    """The numbers of the saves still agree: process 1 has missed one."""
    if jax.process_index() == 1:
        return raised(cairn.save, path, {"a": 1}, timeout=1)
    return None


def interrupted(path):
    """Ctrl-C while a process waits for the others; other threads go on."""
    if jax.process_index() == 1:
        return raised(cairn.save, path, {"a": 1}, timeout=60) if not time.sleep(1.5) else None
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests in the background ignore it
    ticks = []
    stop = threading.Event()

    def tick():
        while not stop.wait(0.01):
            ticks.append(1)

    thread = threading.Thread(target=tick)
    thread.start()
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    began = time.monotonic()
    result = raised(cairn.save, path, {"a": 1}, timeout=60)
    took = time.monotonic() - began
    stop.set()
    thread.join()
    return [*result, took < 10, len(ticks) > 10]


def alone(path):
    """Each process saves for itself, beside the other."""
    mine = f"{path}.{jax.process_index()}"
    cairn.save(mine, {"a": np.ones(3)}, coordinator="none")
    return raised(cairn.save, mine + ".x", {"a": put(VALUES["split"], P("x"))}, coordinator="none")


def host_local(path):
    return raised(cairn.save, path, {"a": jax.numpy.ones(3)})


def wrong_options(path):
    return [raised(cairn.save, path, {}, **options) for options in
            ({"coordinator": "mpi"}, {"coordinator": object()}, {"timeout": 0}, {"progress": print}, {"chunk_bytes": 0}, {"if_exists": "replace"})]


class Dies:
    """A leaf during whose conversion a process ends."""

    def __array__(self, dtype=None, copy=None):
        os._exit(1)


def one_dies(path):
    leaf = Dies() if jax.process_index() == 1 else np.ones(3)
    return raised(cairn.save, path, {"a": put(VALUES["split"], P("x")), "b": leaf}, timeout=2)


def stores_nothing(path):
    """How many keys the saves so far have left in the store of the job."""
    client = jax._src.distributed.global_state.client
    return len(client.key_value_dir_get_bytes("cairn/"))
