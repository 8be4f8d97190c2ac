#!/usr/bin/env python3
"""Times one save with one of the peers inside a new process, as save_bench does for Cairn.

    python save_peers.py PEER DATA.safetensors TARGET [WORD ...]

PEER: orbax (words: raw, zarr3), orbax_async (word: raw) and dcp_async, which report how long the caller waits, orbax_step (the steps 1
to 4 of a CheckpointManager, each with other values in a hundredth of the elements; the time is the median of 2 to 4),
tensorstore (uncompressed Zarr in OCDBT), torch, dcp, safetensors, tensorflow (word: sync, which adds
the fsync of the files and their folder that these three omit). The time excludes imports, reading the data, and the setup at the
first use of a package: each peer first saves a tiny tree. Orbax, TensorStore and DCP sync their output themselves.
"""

import json
import os
import pathlib
import resource
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def orbax(path, tree, words):
    import orbax.checkpoint as ocp

    handler = ocp.PyTreeCheckpointHandler(use_compression="raw" not in words, use_zarr3="zarr3" in words)
    with ocp.Checkpointer(handler) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree))


def orbax_async(path, tree, words):
    """Returns a function that waits for the rest."""
    import orbax.checkpoint as ocp

    checkpointer = ocp.AsyncCheckpointer(ocp.PyTreeCheckpointHandler(use_compression="raw" not in words))
    checkpointer.save(path, args=ocp.args.PyTreeSave(tree))
    return checkpointer.close


def dcp_async(path, tree, words):
    import torch.distributed.checkpoint

    return torch.distributed.checkpoint.async_save(tree, checkpoint_id=path, no_dist=True).result


def orbax_step(path, tree, words):
    """Times itself: returns the seconds of a step."""
    import numpy as np
    import orbax.checkpoint as ocp

    with ocp.CheckpointManager(path, options=ocp.CheckpointManagerOptions(enable_async_checkpointing=False)) as manager:
        seconds = []
        for step in (1, 2, 3, 4):
            rng = np.random.default_rng(step)
            adapters = {name: rng.standard_normal(max(array.size // 100, 1), np.float32) for name, array in tree.items()}
            start = time.perf_counter()
            manager.save(step, args=ocp.args.PyTreeSave({"frozen": tree, "trained": adapters}))
            seconds.append(time.perf_counter() - start)
        return sorted(seconds[1:])[1]


def tensorstore(path, tree, words):
    import tensorstore as ts

    transaction = ts.Transaction()  # a single commit; without it, 10,000 arrays take minutes

    def create(name, array):
        spec = {"driver": "zarr", "kvstore": {"driver": "ocdbt", "base": f"file://{path}/", "path": f"{name}/"}, "metadata": {"compressor": None}}
        return ts.open(spec, create=True, transaction=transaction, dtype=array.dtype, shape=array.shape, chunk_layout=ts.ChunkLayout(chunk_shape=array.shape))

    stores = [future.result() for future in [create(name, array) for name, array in tree.items()]]
    for future in [store.write(array) for store, array in zip(stores, tree.values())]:
        future.result()
    transaction.commit_async().result()


def tensors(tree):
    import torch

    def tensor(array):
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16) if array.dtype.name == "bfloat16" else torch.from_numpy(array)

    return {name: tensor(array) for name, array in tree.items()}


def synced(path, words):
    for each in (path, path.parent) if "sync" in words else ():
        fd = os.open(each, os.O_RDONLY)
        os.fsync(fd)
        os.close(fd)


def torch(path, tree, words):
    import torch

    torch.save(tree, path)
    synced(path, words)


def dcp(path, tree, words):
    import torch.distributed.checkpoint

    torch.distributed.checkpoint.save(tree, checkpoint_id=path, no_dist=True)


def safetensors(path, tree, words):
    import safetensors.numpy

    safetensors.numpy.save_file(tree, path)
    synced(path, words)


def tensorflow(path, tree, words):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import tensorflow as tf

    path.mkdir()
    tf.raw_ops.SaveV2(prefix=str(path / "model"), tensor_names=list(tree), shape_and_slices=[""] * len(tree), tensors=list(tree.values()))
    for file in path.iterdir():
        synced(file, words)


def as_tensorflow_likes(tree):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    import tensorflow as tf

    return {name: tf.constant(array) for name, array in tree.items()}


def main(peer, data, target, *words):
    import ml_dtypes  # noqa: F401 -- makes NumPy understand bfloat16
    import numpy as np
    import safetensors.numpy

    likes = {"torch": tensors, "dcp": tensors, "dcp_async": tensors, "tensorflow": as_tensorflow_likes}
    as_peer_likes = likes.get(peer, lambda tree: tree)
    save = globals()[peer]
    target = pathlib.Path(target).resolve()
    first = save(target.with_name(target.name + "-first"), as_peer_likes({"a": np.arange(3)}), words)
    if callable(first):
        first()
    arrays = safetensors.numpy.load_file(data)
    tree = as_peer_likes(arrays)
    start = time.perf_counter()
    rest = save(target, tree, words)
    seconds = total_seconds = time.perf_counter() - start
    if isinstance(rest, float):  # it has timed itself
        seconds = total_seconds = rest
    elif rest:
        rest()
        total_seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "total_seconds": total_seconds, "bytes": sum(array.nbytes for array in arrays.values()), "peak_rss": peak}))


if __name__ == "__main__":
    main(*sys.argv[1:])
