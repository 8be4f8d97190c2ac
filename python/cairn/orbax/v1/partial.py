"""Saves of one tree in several parts. finalize() makes a checkpoint of them."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.v1.partial_saves import finalize, save, save_async

__getattr__ = _hints(__name__)

__all__ = ["finalize", "save", "save_async"]
