"""Checkpointers."""

from cairn.orbax._impl.checkpointer import AbstractCheckpointer, AsyncCheckpointer, Checkpointer
from cairn.orbax._impl.checkpointers import PyTreeCheckpointer, StandardCheckpointer

__all__ = [
    "AbstractCheckpointer",
    "AsyncCheckpointer",
    "Checkpointer",
    "PyTreeCheckpointer",
    "StandardCheckpointer",
]
