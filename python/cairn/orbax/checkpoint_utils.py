"""Restores like a target, and waits for the steps of another process."""

from typing import Any, TypeAlias

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.leaves.leaf_args import PLACEHOLDER
from cairn.orbax._impl.leaves.restore_args import construct_restore_args
from cairn.orbax._impl.steps.new_steps import checkpoints_iterator, wait_for_new_checkpoint
from cairn.orbax._impl.steps.snapshots import get_snapshot_dir_from_step_dir

PyTree: TypeAlias = Any  # in annotations, as in Orbax

_missing = _hints(__name__)


def __getattr__(name: str) -> Any:
    if name == "STANDARD_ARRAY_TYPES":  # JAX is imported when it is asked for
        import jax
        import numpy as np

        return (int, float, np.ndarray, jax.Array)
    return _missing(name)


__all__ = [
    "PLACEHOLDER",
    "checkpoints_iterator",
    "construct_restore_args",
    "get_snapshot_dir_from_step_dir",
    "wait_for_new_checkpoint",
]
