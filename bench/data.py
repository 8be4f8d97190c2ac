#!/usr/bin/env python3
"""Makes the data sets of the benchmarks, each in every form that a peer reads. Skips those that already exist.

    python data.py FOLDER {full,quick} DATASET:FORM ...
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys

from cases import CAIRN, HERE, SCALES

os.environ.setdefault("JAX_PLATFORMS", "cpu")


def normal(count, dtype, seed=0):
    """Numbers distributed like trained weights. A tile repeats with a period far longer than the window of a compressor."""
    import numpy as np

    tile = (np.random.default_rng(seed).standard_normal(8 << 20, dtype=np.float32) * 0.02).astype(dtype)
    return np.resize(np.roll(tile, 1_000_003 * seed), count)


def large(scale):
    """1 GiB of float32 in eight arrays."""
    import numpy as np

    rows = 8192 // scale
    return {f"w{i}": normal(rows * 4096, np.float32, i).reshape(rows, 4096) for i in range(8)}


def one(scale):
    """1 GiB of float32 in one array."""
    import numpy as np

    rows = 65536 // scale
    return {"w": normal(rows * 4096, np.float32).reshape(rows, 4096)}


def compressible(scale):
    """512 MiB of compressible data: bfloat16 moments stored as float32, zeros, and token numbers."""
    import ml_dtypes
    import numpy as np

    count = (32 << 20) // scale
    tokens = np.resize(np.random.default_rng(9).zipf(1.3, 1 << 20).clip(max=50_256).astype(np.int32), count)
    return {"mu": normal(count, ml_dtypes.bfloat16, 1).astype(np.float32), "nu": normal(count, ml_dtypes.bfloat16, 2).astype(np.float32),
            "zeros": np.zeros(count, np.float32), "tokens": tokens}


def llama(scale):
    """The tensors of a Llama model with 1.24 billion parameters, in bfloat16."""
    import ml_dtypes

    hidden, inner, kv, vocab = 2048, 8192, 512, 128256 // scale
    shapes = {"embed": (vocab, hidden), "norm": (hidden,)}
    for i in range(16 // min(scale, 8)):
        layer = {"q": (hidden, hidden), "k": (kv, hidden), "v": (kv, hidden), "o": (hidden, hidden), "gate": (inner, hidden), "up": (inner, hidden),
                 "down": (hidden, inner), "norm1": (hidden,), "norm2": (hidden,)}
        shapes |= {f"layers_{i}_{name}": shape for name, shape in layer.items()}
    return {name: normal(shape[0] * (shape[1:] or (1,))[0], ml_dtypes.bfloat16, i).reshape(shape) for i, (name, shape) in enumerate(shapes.items())}


def many(count):
    """`count` small tensors of 4 KiB each."""
    import numpy as np

    values = normal(count * 1024, np.float32).reshape(count, 32, 32)
    return {f"layer_{i // 100:03}_block_{i % 100:02}_w": values[i] for i in range(count)}


def small(count, elements=256):
    """`count` tiny tensors of 1 KiB (256 elements) each, in layers of ten."""
    import numpy as np

    values = normal(count * elements, np.float32).reshape(count, elements)
    return {f"layers_{i // 10:06}_w{i % 10}": values[i] for i in range(count)}


def trees():
    return {"large": large, "one": one, "compressible": compressible, "llama": llama, "many": lambda scale: many(10_000 // scale), "small": lambda scale: small(10_000 // scale), "middle": lambda scale: small(1000 // scale, 1 << 18), "few": lambda scale: many(300),
            "million": lambda scale: small(1_000_000 // scale, 16), "steps": lambda scale: many(10_000 // scale)}


def save_orbax(path, tree, **options):
    import orbax.checkpoint as ocp

    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(**options)) as checkpointer:
        checkpointer.save(path, args=ocp.args.PyTreeSave(tree))


def save_npy(path, tree):
    import numpy as np

    path.mkdir()
    for name, array in tree.items():
        np.save(path / f"{name}.npy", array)


def save_torch(path, tree):
    import torch

    def tensor(array):
        if array.dtype.name == "bfloat16":
            return torch.from_numpy(array.view("int16").copy()).view(torch.bfloat16)
        return torch.from_numpy(array.copy())

    torch.save({name: tensor(array) for name, array in tree.items()}, path)


def save_safetensors(path, tree):
    import safetensors.numpy

    safetensors.numpy.save_file(dict(tree), path)


def save_tensorflow(path, tree):
    os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": ""}
    import tensorflow as tf

    path.mkdir()
    tf.raw_ops.SaveV2(prefix=str(path / "model"), tensor_names=list(tree), shape_and_slices=[""] * len(tree), tensors=list(tree.values()))


def save_cairn(path, *words):
    subprocess.run([CAIRN.parent / "save_bench", "save", path.with_name("model.safetensors"), path, *words], stdout=subprocess.DEVNULL, check=True)


def save_two(path, tree):
    subprocess.run([sys.executable, HERE / "multiprocess_peers.py", "save", "2", path.with_name("model.safetensors"), path], stdout=subprocess.DEVNULL, check=True)


def save_steps(path, tree):
    """A root of as many small steps as the tree has tensors."""
    import orbax.checkpoint as ocp

    with ocp.CheckpointManager(path) as manager:
        manager.save(0, args=ocp.args.PyTreeSave({"w": next(iter(tree.values()))}))
    for step in range(1, len(tree)):
        shutil.copytree(path / "0", path / str(step))


FORMS = {
    "orbax": lambda path, tree: save_orbax(path, tree),
    "orbax_raw": lambda path, tree: save_orbax(path, tree, use_compression=False),
    "npy": save_npy,
    "torch.pt": save_torch,
    "model.safetensors": save_safetensors,
    "cairn": lambda path, tree: save_cairn(path),
    "cairn_none": lambda path, tree: save_cairn(path, "none"),
    "cairn_zarr3": lambda path, tree: save_cairn(path, "zarr3"),
    "orbax_two": save_two,
    "tf": save_tensorflow,
    "run": save_steps,
}


def remove(path):
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def make(folder, name, scale, wanted):
    done = folder / name / "done"
    facts = json.loads(done.read_text()) if done.exists() else {}
    made = facts.get("forms", [])
    if wanted & {"cairn", "cairn_none", "cairn_zarr3", "orbax_two"}:
        wanted.add("model.safetensors")
    missing = [form for form in FORMS if form in wanted and form not in made]
    if not missing:
        return
    print(f"making {folder / name}: {', '.join(missing)}", flush=True)
    (folder / name).mkdir(parents=True, exist_ok=True)
    tree = trees()[name](SCALES[scale])
    for form in missing:
        remove(folder / name / form)
        FORMS[form](folder / name / form, tree)
        made.append(form)
        done.write_text(json.dumps({"tensors": len(tree), "bytes": sum(array.nbytes for array in tree.values()), "forms": made}))


def main(folder, scale, *words):
    import jax

    jax.config.update("jax_enable_x64", True)
    wanted = {}
    for word in words:
        name, _, form = word.partition(":")
        wanted.setdefault(name, set()).add(form)
    for name, forms in wanted.items():
        make(pathlib.Path(folder).resolve(), name, scale, forms)


if __name__ == "__main__":
    main(*sys.argv[1:])
