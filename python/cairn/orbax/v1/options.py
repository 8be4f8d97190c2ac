"""Options of a Context.

An option that asks for something that cairn.orbax does not have raises NotImplementedError when it
is used, with a hint.
"""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.base.options import AtomicityMode
from cairn.orbax._impl.types.empty_values import PyTreeMetadataOptions as PyTreeMetadataOptions
from cairn.orbax._impl.v1.array_options import ArrayOptions
from cairn.orbax._impl.v1.checkpointables_options import CheckpointablesOptions
from cairn.orbax._impl.v1.memory_options import MemoryOptions, SafetensorsOptions
from cairn.orbax._impl.v1.options import (
    AsyncOptions,
    AtomicityOptions,
    CheckpointLayout,
    DeletionOptions,
    FileOptions,
    MultiprocessingOptions,
    PathwaysOptions,
    PyTreeOptions,
)

__getattr__ = _hints(__name__)

__all__ = [
    "ArrayOptions",
    "AsyncOptions",
    "AtomicityMode",
    "AtomicityOptions",
    "CheckpointLayout",
    "CheckpointablesOptions",
    "DeletionOptions",
    "FileOptions",
    "MemoryOptions",
    "MultiprocessingOptions",
    "PathwaysOptions",
    "PyTreeOptions",
    "SafetensorsOptions",
]
