"""Transformations between flat dicts and trees."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.model_surgery.nesting import unflatten
from cairn.orbax._impl.model_surgery.types import Transformation

__getattr__ = _hints(__name__)

__all__ = [
    "Transformation",
    "unflatten",
]
