"""Reads and writes the files of models with the real packages: safetensors folders and Orbax trees."""

import os

import ml_dtypes
import numpy as np
import orbax.checkpoint as ocp
import torch
from safetensors import safe_open

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def to_numpy(tensor):
    tensor = tensor.detach().contiguous()
    return tensor.view(torch.uint16).numpy().view(BFLOAT16) if tensor.dtype == torch.bfloat16 else tensor.numpy()


def read_folder(folder):
    """All tensors of a folder of safetensors files."""
    found = {}
    for name in sorted(os.listdir(folder)):
        if name.endswith(".safetensors"):
            with safe_open(os.path.join(folder, name), "pt") as file:
                for key in file.keys():
                    assert key not in found, f"{key} is in two files"
                    found[key] = to_numpy(file.get_tensor(key))
    return found


def nest(flat):
    root = {}
    for key, leaf in flat.items():
        *path, last = key.split("/")
        node = root
        for part in path:
            node = node.setdefault(part, {})
        node[last] = leaf
    return root


def flatten(tree, path=()):
    found = {}
    for key, child in tree.items():
        inner = (*path, str(key))
        found.update(flatten(child, inner) if isinstance(child, dict) else {"/".join(inner): np.asarray(child)})
    return found


def write_orbax_tree(path, tree):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler(use_ocdbt=True, use_zarr3=True)) as saver:
        saver.save(path, args=ocp.args.PyTreeSave(tree))


def read_orbax_tree(path):
    with ocp.Checkpointer(ocp.PyTreeCheckpointHandler()) as reader:
        return reader.restore(path)


def write_orbax(path, flat):
    """Saves a tree of these leaves as the JAX programs do: Orbax, OCDBT, Zarr v3."""
    write_orbax_tree(path, nest(flat))


def read_orbax(path):
    return flatten(read_orbax_tree(path))


def assert_same(found, expected):
    """The same names, types, shapes and bits."""
    assert sorted(found) == sorted(expected), sorted(found.keys() ^ expected.keys())
    for name, array in expected.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape), name
        assert found[name].tobytes() == np.ascontiguousarray(array).tobytes(), name
