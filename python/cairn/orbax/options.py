"""Options of checkpointers."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.base.options import (
    AsyncOptions,
    AtomicityMode,
    AtomicityOptions,
    FileOptions,
    MemoryLimitOptions,
    MultiprocessingOptions,
)

__getattr__ = _hints(__name__)

__all__ = [
    "AsyncOptions",
    "AtomicityMode",
    "AtomicityOptions",
    "FileOptions",
    "MemoryLimitOptions",
    "MultiprocessingOptions",
]
