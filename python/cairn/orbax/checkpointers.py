"""Checkpointers."""

from cairn.orbax._impl.checkpointer import AbstractCheckpointer, AsyncCheckpointer, Checkpointer
from cairn.orbax._impl.checkpointers import PyTreeCheckpointer, StandardCheckpointer
from cairn.orbax._impl.missing import hints as _hints

__getattr__ = _hints(__name__)

__all__ = [
    "AbstractCheckpointer",
    "AsyncCheckpointer",
    "Checkpointer",
    "PyTreeCheckpointer",
    "StandardCheckpointer",
]
