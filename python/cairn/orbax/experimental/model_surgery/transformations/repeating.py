"""Transformations that repeat the elements of arrays along an axis."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.model_surgery.repeating import repeat_by_keys, repeat_by_pattern
from cairn.orbax._impl.model_surgery.types import Transformation

__getattr__ = _hints(__name__)

__all__ = [
    "Transformation",
    "repeat_by_keys",
    "repeat_by_pattern",
]
