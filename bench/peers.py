#!/usr/bin/env python3
"""Times one restore with one of the peers inside a new process, as restore_bench does for Cairn.

    python peers.py PEER MODE PATH [ARGS]      modes: load; slice NAME LO HI; some STEP; list; steps

The time excludes imports and the setup at the first use of a package: each peer first restores a tiny checkpoint. The modes
`list` and `steps` measure nothing here, because compare.py measures the whole process.
"""

import json
import os
import pathlib
import resource
import sys
import time

os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def timed(prepare, run):
    ready = prepare()
    start = time.perf_counter()
    result = run(ready)
    return time.perf_counter() - start, result


def nbytes(arrays):
    return int(sum(getattr(array, "nbytes", 0) for array in arrays))


# ---- Orbax ----
def orbax_restore(path):
    import jax
    import numpy as np
    import orbax.checkpoint as ocp

    handler = ocp.PyTreeCheckpointHandler()
    tree = handler.metadata(path).tree
    args = jax.tree.map(lambda _: ocp.RestoreArgs(restore_type=np.ndarray), tree)
    return jax.tree.leaves(handler.restore(path, args=ocp.args.PyTreeRestore(restore_args=args)))


def orbax_load(path):
    import tempfile

    import numpy as np
    import orbax.checkpoint as ocp

    with tempfile.TemporaryDirectory() as folder:
        tiny = pathlib.Path(folder) / "tiny"
        with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as checkpointer:
            checkpointer.save(tiny, args=ocp.args.PyTreeSave({"a": np.arange(3)}))
        orbax_restore(tiny)
    return timed(lambda: None, lambda _: orbax_restore(path))


def orbax_list(path):
    import orbax.checkpoint as ocp

    return len(ocp.PyTreeCheckpointHandler().metadata(path).tree)


def orbax_steps(path):
    import orbax.checkpoint as ocp

    with ocp.CheckpointManager(path) as manager:
        return len(manager.all_steps())


def orbax_manager(path, best_fn=None):
    import orbax.checkpoint as ocp

    def make(_):
        with ocp.CheckpointManager(path, options=ocp.CheckpointManagerOptions(read_only=True, best_fn=best_fn)) as manager:
            manager.best_step()
        return []

    return timed(lambda: None, make)


def orbax_manager_best(path):
    return orbax_manager(path, lambda metrics: metrics["loss"])


# ---- TensorStore ----
def tensorstore_names(path):
    import tensorstore as ts

    keys = ts.KvStore.open(f"file://{path}/|ocdbt:").result().list().result()
    return sorted({key.rpartition(b"/")[0].decode() for key in keys})


def tensorstore_open(path, names, context):
    import tensorstore as ts

    specs = [{"driver": "zarr", "kvstore": {"driver": "ocdbt", "base": f"file://{path}/", "path": f"{name}/"}} for name in names]
    return [future.result() for future in [ts.open(spec, open=True, context=context) for spec in specs]]


def tensorstore_list(path):
    return len(tensorstore_names(path))


def tensorstore_load(path):
    import tensorstore as ts

    def run(_):
        arrays = tensorstore_open(path, tensorstore_names(path), ts.Context({"file_io_concurrency": {"limit": 128}}))
        return [future.result() for future in [array.read() for array in arrays]]

    return timed(lambda: None, run)


def tensorstore_slice(path, name, lo, hi):
    import tensorstore as ts

    return timed(lambda: None, lambda _: [tensorstore_open(path, [name], ts.Context())[0][lo:hi].read().result()])


def tensorstore_some(path, step):
    import tensorstore as ts

    def run(_):
        arrays = tensorstore_open(path, tensorstore_names(path)[::step], ts.Context())
        return [future.result() for future in [array.read() for array in arrays]]

    return timed(lambda: None, run)


# ---- torch, safetensors, NumPy ----
def torch_load(path):
    import torch

    return timed(lambda: None, lambda _: list(torch.load(path, weights_only=True).values()))


def safetensors_load(path):
    import ml_dtypes  # noqa: F401 -- makes NumPy understand bfloat16
    import safetensors.numpy

    return timed(lambda: None, lambda _: list(safetensors.numpy.load_file(path).values()))


def safetensors_slice(path, name, lo, hi):
    import numpy  # noqa: F401 -- safe_open would import it
    import safetensors

    def run(_):
        with safetensors.safe_open(path, "np") as opened:
            return [opened.get_slice(name)[lo:hi]]

    return timed(lambda: None, run)


def safetensors_some(path, step):
    import numpy  # noqa: F401
    import safetensors

    def run(_):
        with safetensors.safe_open(path, "np") as opened:
            return [opened.get_tensor(name) for name in sorted(opened.keys())[::step]]

    return timed(lambda: None, run)


def safetensors_list(path):
    import safetensors

    with safetensors.safe_open(path, "np") as opened:
        return len([(name, opened.get_slice(name).get_shape(), opened.get_slice(name).get_dtype()) for name in opened.keys()])


# ---- TensorFlow ----
def tensorflow_prefix(path):
    os.environ["CUDA_VISIBLE_DEVICES"] = ""
    return str(next(path.glob("*.index")))[: -len(".index")]


def tensorflow_load(path):
    import tensorflow as tf

    prefix = tensorflow_prefix(path)
    types = tf.train.load_checkpoint(prefix).get_variable_to_dtype_map()
    names = sorted(types)
    tf.constant([1.0]) + 1

    # Restores all tensors with one operation, which is equivalent to tf.train.Checkpoint.restore.
    def run(_):
        return tf.raw_ops.RestoreV2(prefix=prefix, tensor_names=names, shape_and_slices=[""] * len(names), dtypes=[types[name] for name in names])

    seconds, tensors = timed(lambda: None, run)
    return seconds, [tensor.numpy() for tensor in tensors]


def tensorflow_reader_load(path):
    import tensorflow as tf

    prefix = tensorflow_prefix(path)

    def run(_):
        reader = tf.train.load_checkpoint(prefix)
        return [reader.get_tensor(name) for name in reader.get_variable_to_dtype_map()]

    return timed(lambda: None, run)


def tensorflow_list(path):
    import tensorflow as tf

    return len(tf.train.list_variables(tensorflow_prefix(path)))


def numpy_load(path):
    import numpy as np

    return timed(lambda: None, lambda _: [np.load(file) for file in sorted(path.iterdir())])


def numpy_slice(path, name, lo, hi):
    import numpy as np

    return timed(lambda: None, lambda _: [np.array(np.load(path / f"{name}.npy", mmap_mode="r")[lo:hi])])


def numpy_some(path, step):
    import numpy as np

    return timed(lambda: None, lambda _: [np.array(np.load(file, mmap_mode="r")) for file in sorted(path.iterdir())[::step]])


def main(peer, mode, path, *args):
    function = globals()[f"{peer}_{mode}"]
    path = pathlib.Path(path).resolve()
    if mode in ("list", "steps"):
        print(function(path))
        return
    seconds, arrays = function(path, *(int(word) if word.isdigit() else word for word in args))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "bytes": nbytes(arrays), "peak_rss": peak}))


if __name__ == "__main__":
    main(*sys.argv[1:])
