"""Shared helpers for the tests of saving: small sources with known values, and a snapshot of everything in a folder."""

import os
import socket
import stat

import numpy as np
import safetensors.numpy

# For each kind of output: the name of the target, and the options of `cairn convert`.
KINDS = {
    "orbax": ("ckpt", ["--to", "orbax"]),
    "orbax-zarr3": ("ckpt", ["--to", "orbax-zarr3"]),
    "orbax-files": ("ckpt", ["--to", "orbax-files"]),
    "item": ("ckpt", ["--to", "orbax", "--as-item", "default"]),
    "safetensors": ("ckpt.safetensors", []),
    "set": ("ckpt.safetensors", ["--max-shard-bytes", "4000"]),
    "npz": ("ckpt.npz", []),
    "msgpack": ("ckpt.msgpack", []),
    "torch": ("ckpt.pt", []),
    "dcp": ("ckpt", ["--to", "dcp"]),
    "tensorflow": ("ckpt", ["--to", "tensorflow"]),
    "tensorflow-sharded": ("ckpt", ["--to", "tensorflow", "--max-shard-bytes", "4000"]),
}
DIRECTORIES = ["orbax", "orbax-zarr3", "orbax-files", "item", "dcp"]


def write_source(path, number):
    """Writes four tensors in which every element is `number`."""
    safetensors.numpy.save_file({f"layer{i}.w": np.full((25, 40), number, np.float32) for i in range(4)}, path)
    return path


def opened_path(kind, folder):
    """The path that opens a checkpoint of that kind."""
    index = folder / "ckpt.safetensors.index.json"
    if kind in ("safetensors", "set") and index.exists():
        return index
    return folder / ("ckpt.index" if kind.startswith("tensorflow") else KINDS[kind][0])


def snapshot(path):
    """Everything that a faulty save could change at and below a path. Links are not followed."""
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return None
    what = stat.S_IFMT(status.st_mode)
    if stat.S_ISLNK(status.st_mode):
        return what, os.readlink(path)
    if stat.S_ISREG(status.st_mode):
        return what, stat.S_IMODE(status.st_mode), open(path, "rb").read()
    if stat.S_ISDIR(status.st_mode):
        return what, stat.S_IMODE(status.st_mode), {name: snapshot(os.path.join(path, name)) for name in sorted(os.listdir(path))}
    return what, status.st_ino


def make_socket(path):
    server = socket.socket(socket.AF_UNIX)
    here = os.getcwd()
    os.chdir(path.parent)  # the kernel accepts only short socket paths
    try:
        server.bind(path.name)
    finally:
        os.chdir(here)
        server.close()
