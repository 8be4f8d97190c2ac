#!/usr/bin/env python3
"""Saves checkpoints from two real processes that meet through jax.distributed on the loopback device.

    python two_process.py --root DIR [--only VARIANT] [--seed N]

Writes DIR/<variant> for every variant, and DIR/expected.json: {variant: [leaf records]} (see leaves.py). At last,
each saves steps with a CheckpointManager in DIR/preempted until one of them gets a SIGTERM. Run without
--rank it starts the two processes; each has four virtual CPU devices, so meshes span both.
"""

import argparse
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys

VARIANTS = {
    "ocdbt_zarr2": {},
    "ocdbt_zarr3": {"use_zarr3": True},
    "ocdbt_raw": {"use_compression": False},
    "files_zarr2": {"use_ocdbt": False},
    "files_zarr3": {"use_ocdbt": False, "use_zarr3": True},
    "chunked": {"chunk_byte_size": 512},
    "replica_folders": {"replica_folders": True},
    "controller": {"ocdbt_process_id": "controller"},  # the database of host values has a name, not a number
    "v1": {"v1": True},
}


def make_tree(seed):
    import jax
    import ml_dtypes
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("x", "y"))
    rng = np.random.default_rng(seed)
    host = {}

    def put(name, shape, spec, dtype=np.float32):
        host[name] = rng.standard_normal(shape).astype(dtype)
        return jax.make_array_from_callback(shape, NamedSharding(mesh, P(*spec)), lambda index: host[name][index])

    tree = {
        "layer0": {"w": put("layer0.w", (8, 8), ("x", "y"))},
        "layer1": {"big": put("layer1.big", (64, 32), ("x", "y"), ml_dtypes.bfloat16), "bias": put("layer1.bias", (8,), ("x",))},
        "repl": put("repl", (16, 6), ()), "both": put("both", (16,), (("x", "y"),), np.float64), "y": put("y", (3, 10), (None, "y")),
        "scalar": put("scalar", (), ()), "np": np.arange(12, dtype=np.int16).reshape(3, 4), "large": rng.standard_normal((50, 20)), "step": 5, "name": "two processes", "none": None,
    }
    return tree, host


def expected(tree, host):
    """Records of the tree; sharded arrays are not addressable here, so their values come from `host`."""
    import jax
    import leaves

    flat, _ = jax.tree_util.tree_flatten_with_path(tree, is_leaf=leaves.is_empty)
    found = []
    for path, value in flat:
        name = leaves.name_of(path)
        record = leaves.describe(path, host.get(name, value)).record
        if name in host:
            record["kind"] = "jax.Array"
        found.append(record)
    return found


def save(path, tree, chunk_byte_size=None, replica_folders=False, ocdbt_process_id=None, v1=False, **options):
    import jax
    import numpy as np
    import orbax.checkpoint as ocp

    if v1:
        ocp.v1.save(path, tree)
        return
    if replica_folders or ocdbt_process_id:
        handlers = ocp.type_handlers
        scalars = handlers.ScalarHandler(ocdbt_process_id=ocdbt_process_id)
        options["type_handler_registry"] = handlers.create_type_handler_registry(
            (int, scalars), (float, scalars), (np.ndarray, handlers.NumpyHandler(ocdbt_process_id=ocdbt_process_id)), (str, handlers.StringHandler()),
            (jax.Array, handlers.ArrayHandler(enable_replica_parallel_separate_folder=replica_folders)))
    args = jax.tree.map(lambda leaf: ocp.SaveArgs(chunk_byte_size=chunk_byte_size), tree) if chunk_byte_size else None
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree, save_args=args))


def save_until_preempted(root, rank):
    """Saves step 0 and the step at which all end, because a SIGTERM reaches process 1 alone. Writes what this process saw."""
    import signal
    import time

    import orbax.checkpoint as ocp

    saved = []
    with ocp.CheckpointManager(root / "preempted", options=ocp.CheckpointManagerOptions(save_interval_steps=10**6)) as manager:
        for step in range(10**6):
            if rank == 1 and step == 5:
                os.kill(os.getpid(), signal.SIGTERM)
            if manager.save(step, args=ocp.args.Composite(state=ocp.args.PyTreeSave({"x": step}))):
                saved.append(step)
            if manager.reached_preemption(step):
                break
            time.sleep(0.02)  # the training step
    (root / f"preempted.{rank}.json").write_text(json.dumps(saved))


def msgpack_refusals(array):
    """What the writers of msgpack say of an array with parts in the other process."""
    import flax.serialization
    from orbax.checkpoint import msgpack_utils

    said = {}
    for name, write in {"flax": flax.serialization.msgpack_serialize, "flax-state": flax.serialization.to_bytes, "orbax": msgpack_utils.msgpack_serialize}.items():
        try:
            write({"w": array})
        except Exception as error:  # noqa: BLE001 -- which kind is what is compared
            said[name] = f"{type(error).__name__}: {error}"
    return said


def save_apart(root, rank):
    """Each process for itself, into a folder of its own: an array of which each holds all, and leaves of other kinds."""
    import jax
    import numpy as np
    import orbax.checkpoint as ocp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    from orbax.checkpoint._src.metadata import array_metadata_store

    handlers = ocp.type_handlers
    registry = handlers.create_type_handler_registry(
        (int, handlers.ScalarHandler()), (np.ndarray, handlers.NumpyHandler()), (str, handlers.StringHandler()),
        (jax.Array, handlers.ArrayHandler(primary_host=None, replica_id=None, use_replica_parallel=False, array_metadata_store=array_metadata_store.Store())))
    alone = ocp.options.MultiprocessingOptions(primary_host=None)
    mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("process", "x"))
    tree = {name: jax.make_array_from_callback(values.shape, NamedSharding(mesh, P(*spec)), lambda index, values=values: values[index])
            for name, (values, spec) in apart_arrays().items()}
    for name, rest in (("arrays", {}), ("all", APART_REST)):
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(multiprocessing_options=alone, type_handler_registry=registry), multiprocessing_options=alone) as checkpointer:
            checkpointer.save(root / f"apart_{name}{rank}", args=ocp.args.PyTreeSave(tree | rest))


def apart_arrays():
    """{name: (values, spec)}, the specs over the devices of one process."""
    import numpy as np

    return {"w": (np.arange(4096, dtype=np.int32).reshape(64, 64), (None, "x")), "v": (np.arange(8.0), ("x",)), "small": (np.arange(3.0), ())}


APART_REST = {"step": 5, "name": "apart"}


OUTSIDE = {"neither": ["global_shape", "dtype"], "no dtype": ["dtype"], "no shape": ["global_shape"]}  # what one leaf lacks


def outside_refusals(root):
    """What SingleReplicaArrayHandler says in a process outside the primary replica, which has to be told what comes."""
    import jax
    import numpy as np
    import orbax.checkpoint as ocp
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

    handlers = ocp.type_handlers
    sharding = NamedSharding(Mesh(np.array(jax.devices()).reshape(2, 4), ("process", "x")), P())
    handler = ocp.PyTreeCheckpointHandler(type_handler_registry=handlers.create_type_handler_registry((jax.Array, handlers.SingleReplicaArrayHandler())))
    said = {}
    for name, lacks in OUTSIDE.items():
        known = {"v": {"global_shape": (8,), "dtype": np.dtype("float64")}, "w": {"global_shape": (64, 64), "dtype": np.dtype("int32")}, "small": {"global_shape": (3,), "dtype": np.dtype("float64")}}
        for member in lacks:
            del known["v"][member]
        args = {leaf: handlers.SingleReplicaArrayRestoreArgs(sharding=sharding, **given) for leaf, given in known.items()}
        try:
            handler.restore(root / "apart_arrays1", args=ocp.args.PyTreeRestore(restore_args=args))
        except Exception as error:  # noqa: BLE001 -- which kind is what is compared
            said[name] = f"{type(error).__name__}: {error}"
    return said


def run_rank(options):
    sys.path[:0] = map(str, pathlib.Path(__file__).resolve().parents[:2])
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.distributed.initialize(f"127.0.0.1:{options.port}", num_processes=2, process_id=options.rank)
    tree, host = make_tree(options.seed)
    found = {}
    for name in options.only or VARIANTS:
        save(options.root / name, tree, **VARIANTS[name])
        found[name] = expected(tree, host)
    if not options.only:
        save_apart(options.root, options.rank)
        if options.rank == 1:
            (options.root / "outside.json").write_text(json.dumps(outside_refusals(options.root)))
        jax.experimental.multihost_utils.sync_global_devices("the end")
    if options.rank == 0:
        (options.root / "expected.json").write_text(json.dumps(found))
        (options.root / "refused.json").write_text(json.dumps(msgpack_refusals(tree["layer0"]["w"])))
    save_until_preempted(options.root, options.rank)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_pair(options):
    shutil.rmtree(options.root, ignore_errors=True)
    options.root.mkdir(parents=True)
    env = os.environ | {"XLA_FLAGS": f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, __file__, "--root", str(options.root), "--port", str(free_port()), "--seed", str(options.seed)]
    for name in options.only:
        command += ["--only", name]
    pair = [subprocess.Popen(command + ["--rank", str(rank)], env=env) for rank in range(2)]
    try:
        codes = [process.wait(timeout=240) for process in pair]
    finally:
        for process in pair:
            process.kill()
    if codes != [0, 0]:
        sys.exit(f"the two processes ended with {codes}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--seed", type=int, default=11)
    parser.add_argument("--rank", type=int)
    parser.add_argument("--port", type=int)
    options = parser.parse_args()
    run_pair(options) if options.rank is None else run_rank(options)


if __name__ == "__main__":
    main()
