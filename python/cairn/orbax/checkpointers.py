"""Checkpointers."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.commit.checkpointer import (
    AbstractCheckpointer,
    AsyncCheckpointer,
    Checkpointer,
)
from cairn.orbax._impl.commit.checkpointers import PyTreeCheckpointer, StandardCheckpointer

__getattr__ = _hints(__name__)

__all__ = [
    "AbstractCheckpointer",
    "AsyncCheckpointer",
    "Checkpointer",
    "PyTreeCheckpointer",
    "StandardCheckpointer",
]
