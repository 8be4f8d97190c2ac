"""Transformations that join arrays along an axis."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.model_surgery.fusing import fuse_by_keys, fuse_by_pattern
from cairn.orbax._impl.model_surgery.types import Transformation

__getattr__ = _hints(__name__)

__all__ = [
    "Transformation",
    "fuse_by_keys",
    "fuse_by_pattern",
]
