"""Checkpoints of machine-learning models: save, restore, inspect, verify, convert.

    import cairn

    cairn.save("ckpt", {"params": {"w": w, "b": b}, "step": 3})   # an Orbax checkpoint
    tree = cairn.load("ckpt")                                     # dicts of NumPy arrays
    state = cairn.load("ckpt", target=state)                      # into your own structure
    rows = cairn.open("ckpt")["params"]["w"][0:8]                 # reads only these rows

Reads Orbax, safetensors, TensorFlow, PyTorch, flax msgpack, npz and Zarr; writes Orbax,
safetensors, npz and msgpack, and through convert() TensorFlow. This package never imports JAX,
PyTorch or TensorFlow; it takes and returns their arrays where the program has imported them.
"""

from cairn import _installation as _installation  # raises ImportError if files are mixed
from cairn._cairn import CorruptionError
from cairn._cairn import version as __version__
from cairn._checkpoint import Checkpoint, Group, Tensor, open
from cairn._load import load
from cairn._maintenance import clean, compact, convert, merge, models, prune, repair, reshard
from cairn._manager import CheckpointManager
from cairn._save import PendingSave, save, save_async
from cairn._tools import DiffReport, VerifyReport, diff, du, stats, steps, verify

__all__ = [
    "Checkpoint",
    "CheckpointManager",
    "CorruptionError",
    "DiffReport",
    "Group",
    "PendingSave",
    "Tensor",
    "VerifyReport",
    "__version__",
    "clean",
    "compact",
    "convert",
    "diff",
    "du",
    "load",
    "merge",
    "models",
    "open",
    "prune",
    "repair",
    "reshard",
    "save",
    "save_async",
    "stats",
    "steps",
    "verify",
]
