"""The options of the calls of handlers: those of the active context, or the defaults."""

from typing import Any

from cairn.orbax._impl.v1.array_options import ArrayOptions
from cairn.orbax._impl.v1.frozen import active
from cairn.orbax._impl.v1.memory_options import MemoryOptions, SafetensorsOptions
from cairn.orbax._impl.v1.options import (
    AsyncOptions,
    AtomicityOptions,
    DeletionOptions,
    FileOptions,
    MultiprocessingOptions,
    PathwaysOptions,
    PyTreeOptions,
)

# Attributes, and the names that they have as arguments of Context().
KINDS: "dict[str, tuple[str, Any]]" = {
    "pytree": ("pytree_options", PyTreeOptions),
    "array": ("array_options", ArrayOptions),
    "asynchronous": ("async_options", AsyncOptions),
    "multiprocessing": ("multiprocessing_options", MultiprocessingOptions),
    "file": ("file_options", FileOptions),
    "pathways": ("pathways_options", PathwaysOptions),
    "deletion": ("deletion_options", DeletionOptions),
    "memory": ("memory_options", MemoryOptions),
    "safetensors": ("safetensors_options", SafetensorsOptions),
    "atomicity": ("atomicity_options", AtomicityOptions),
}


class Settings:
    """Default options. A Context has the same attributes, and `checkpointables`."""

    array: ArrayOptions
    asynchronous: AsyncOptions
    atomicity: AtomicityOptions
    deletion: DeletionOptions
    file: FileOptions
    memory: MemoryOptions
    multiprocessing: MultiprocessingOptions
    pathways: PathwaysOptions
    pytree: PyTreeOptions
    safetensors: SafetensorsOptions

    def __init__(self) -> None:
        self.__dict__.update({name: cls() for name, (_, cls) in KINDS.items()})


def current_settings() -> Any:
    """The active context; default options if there is none."""
    now = active.get()
    return Settings() if now is None else now.context
