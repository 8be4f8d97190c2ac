"""Transformations that stack the arrays of numbered layers."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.model_surgery.stacking import stack
from cairn.orbax._impl.model_surgery.types import Transformation

__getattr__ = _hints(__name__)

__all__ = [
    "Transformation",
    "stack",
]
