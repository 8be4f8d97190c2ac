"""Transforms of trees."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.handlers.transforms import (
    RestoreTransform,
    Transform,
    apply_transformations,
    intersect_trees,
    merge_trees,
)
from cairn.orbax._impl.leaves.leaf_args import RestoreArgs

__getattr__ = _hints(__name__)

__all__ = [
    "RestoreArgs",
    "RestoreTransform",
    "Transform",
    "apply_transformations",
    "intersect_trees",
    "merge_trees",
]
