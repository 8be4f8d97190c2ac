"""Transforms of trees."""

from cairn.orbax._impl.transforms import (
    RestoreTransform,
    Transform,
    apply_transformations,
    intersect_trees,
    merge_trees,
)

__all__ = [
    "RestoreTransform",
    "Transform",
    "apply_transformations",
    "intersect_trees",
    "merge_trees",
]
