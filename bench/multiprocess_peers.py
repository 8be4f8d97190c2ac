#!/usr/bin/env python3
"""Times one save or one restore by several Orbax processes together, in the same way as multiprocess_bench does for Cairn.

    python multiprocess_peers.py save PROCESSES DATA.safetensors TARGET
    python multiprocess_peers.py restore PROCESSES CHECKPOINT DATA.safetensors      (DATA gives names, shapes and dtypes)

The processes coordinate through jax.distributed. Each has one CPU device and its rows of every array. The time excludes imports,
reading the data, and the setup at the first save or restore.
"""

import json
import os
import pathlib
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time


def rows():
    import jax
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    return NamedSharding(Mesh(np.array(jax.devices()), ("d",)), PartitionSpec("d"))


def spread(shape, dtype, part_of):
    """An array whose rows are spread over all devices. `part_of` returns the rows of an index."""
    import jax

    return jax.make_array_from_callback(shape, rows(), part_of, dtype=dtype)


def wait_for_all(processes):
    from jax.experimental import multihost_utils

    if processes > 1:
        multihost_utils.sync_global_devices("bench")


def nbytes(tree):
    return sum(shard.data.nbytes for array in tree.values() for shard in array.addressable_shards)


def save(processes, data, target):
    import safetensors

    tree = {}
    with safetensors.safe_open(data, "numpy") as opened:
        for name in opened.keys():
            part = opened.get_slice(name)
            tree[name] = spread(tuple(part.get_shape()), None, lambda index, part=part: part[index])
        return lambda path: put(path, tree), target, lambda _: nbytes(tree)


def put(path, tree):
    import orbax.checkpoint as ocp

    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree))


def restore(processes, checkpoint, data):
    import orbax.checkpoint as ocp
    import safetensors

    with safetensors.safe_open(data, "numpy") as opened:
        names = list(opened.keys())

    def get(path, wanted=names):
        args = {name: ocp.ArrayRestoreArgs(sharding=rows()) for name in wanted}
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
            return checkpointer.restore(path, args=ocp.args.PyTreeRestore(restore_args=args))

    return get, checkpoint, nbytes


def run(rank, processes, port, scratch, mode, *words):
    import jax
    import numpy as np

    if processes > 1:
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        jax.distributed.initialize(f"127.0.0.1:{port}", processes, rank)
    first = pathlib.Path(scratch) / "first"
    tiny = np.arange(4 * processes, dtype=np.float32)
    put(first, {"a": spread(tiny.shape, None, lambda index: tiny[index])})
    work, path, size = globals()[mode](processes, *words)
    if mode == "restore":
        work(first, ["a"])
    wait_for_all(processes)
    start = time.monotonic()  # the same clock in all processes
    result = work(pathlib.Path(path).resolve())
    end = time.monotonic()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"start": start, "end": end, "bytes": size(result), "peak_rss": peak}))
    wait_for_all(processes)


def run_together(mode, processes, *words):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scratch = tempfile.mkdtemp()
    env = os.environ | {"JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3", "XLA_FLAGS": "--xla_force_host_platform_device_count=1"}
    try:
        children = [subprocess.Popen([sys.executable, __file__, "--rank", str(rank), processes, str(port), scratch, mode, *words], env=env, stdout=subprocess.PIPE)
                    for rank in range(int(processes))]
        done = [json.loads(child.communicate()[0].splitlines()[-1]) for child in children]
    finally:
        shutil.rmtree(scratch)
    if any(child.returncode for child in children):
        sys.exit("not all processes were done")
    print(json.dumps({"seconds": max(one["end"] for one in done) - min(one["start"] for one in done), "bytes": sum(one["bytes"] for one in done),
                      "peak_rss": sum(one["peak_rss"] for one in done)}))


if __name__ == "__main__":
    if sys.argv[1] == "--rank":
        run(int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:])
    else:
        run_together(*sys.argv[1:])
