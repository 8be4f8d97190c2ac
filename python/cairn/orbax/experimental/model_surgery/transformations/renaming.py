"""Transformations that rename arrays."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.model_surgery.renaming import rename_by_regex
from cairn.orbax._impl.model_surgery.types import Transformation

__getattr__ = _hints(__name__)

__all__ = [
    "Transformation",
    "rename_by_regex",
]
