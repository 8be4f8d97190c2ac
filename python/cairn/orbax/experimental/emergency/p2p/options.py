"""Options of the manager that fetches checkpoints from other processes."""

import dataclasses
from typing import Any

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.steps.step_names import standard_name_format

__getattr__ = _hints(__name__)


@dataclasses.dataclass
class LocalCheckpointOptions:
    """Steps on the local disks: which are saved, and how many stay. max_to_keep None: 1."""

    save_interval_steps: int = 10
    save_interval_offset_steps: int = 0
    max_to_keep: "int | None" = None

    def __post_init__(self) -> None:
        self.max_to_keep = 1 if self.max_to_keep is None else self.max_to_keep


@dataclasses.dataclass
class PersistentCheckpointOptions:
    """Steps in the directory of all processes. max_to_keep None: all stay."""

    save_interval_steps: int = 1000
    save_interval_offset_steps: int = 0
    max_to_keep: "int | None" = None


@dataclasses.dataclass
class CheckpointManagerOptions:
    """Options of the manager."""

    local: LocalCheckpointOptions = dataclasses.field(default_factory=LocalCheckpointOptions)
    persistent: PersistentCheckpointOptions = dataclasses.field(
        default_factory=PersistentCheckpointOptions
    )
    replica_axis_index: int = 0
    step_name_format: Any = dataclasses.field(default_factory=standard_name_format)


__all__ = [
    "CheckpointManagerOptions",
    "LocalCheckpointOptions",
    "PersistentCheckpointOptions",
]
