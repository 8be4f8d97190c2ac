"""The type of transformations."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.model_surgery.types import Transformation
from cairn.orbax._impl.trees.plain import PyTreeOf

__getattr__ = _hints(__name__)

__all__ = [
    "PyTreeOf",
    "Transformation",
]
