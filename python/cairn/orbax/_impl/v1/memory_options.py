"""MemoryOptions and SafetensorsOptions."""

import dataclasses
from collections.abc import Callable
from typing import Any

from cairn.orbax._impl.v1.frozen import Options


@dataclasses.dataclass(frozen=True, kw_only=True)
class _RegulatorOptions:
    """Limits that follow the memory in use. Cannot be used."""

    max_memory_limit_gib: float
    profiler: Any
    target_ratio: float = 0.80
    min_memory_limit_gib: float = 10.0
    kp: float = 0.4
    ki: float = 0.05
    kd: float = 0.1

    def __post_init__(self) -> None:
        if self.profiler is None:
            raise ValueError("RegulatorOptions: profiler is None; it must be a MemoryProfiler")


@dataclasses.dataclass(kw_only=True)
class MemoryOptions(Options):
    """Limits of memory, in bytes: of a save's encoded data, and of a restore's working memory.

    The other options cannot be set: all arrays are copied before an asynchronous save returns.
    """

    RegulatorOptions = _RegulatorOptions

    write_concurrent_bytes: "int | None" = None
    read_concurrent_bytes: "int | None" = None
    transfer_concurrent_bytes: "int | None" = None
    regulator_options: "_RegulatorOptions | None" = None
    expected_surge_bytes: "int | float | None" = None
    is_prioritized_key_fn: "Callable[[Any], bool] | None" = None
    serialization_status_callback: Any = None
    deepcopy_host_arrays: bool = True


@dataclasses.dataclass(kw_only=True)
class SafetensorsOptions(Options):
    """How the reads of a safetensors file are joined. Cannot be set: Cairn plans its reads."""

    max_over_read_ratio: "float | None" = None
    read_chunk_bytes: "int | None" = None
