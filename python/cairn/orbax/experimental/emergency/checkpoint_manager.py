"""The emergency manager and its options. The manager is not available."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.steps.step_names import standard_name_format
from cairn.orbax.experimental.emergency._unavailable import UnavailableManager

__getattr__ = _hints(__name__)

_ShouldSave = Callable[[int, "int | None"], bool]


@dataclasses.dataclass
class LocalCheckpointOptions:
    """Steps on the local disks. max_to_keep: 1, unless preservation_policy decides.

    Raises ValueError for both.
    """

    save_interval_steps: int = 10
    max_to_keep: "int | Sequence[int] | None" = None
    read_only: bool = False
    should_save_fn: "_ShouldSave | None" = None
    save_decision_policy: Any = None
    preservation_policy: Any = None
    debug_use_full_global_mesh: bool = False

    def __post_init__(self) -> None:
        if self.preservation_policy is None:
            self.max_to_keep = 1 if self.max_to_keep is None else self.max_to_keep
        elif self.max_to_keep is not None:
            raise ValueError("preservation_policy excludes max_to_keep")


@dataclasses.dataclass
class PersistentCheckpointOptions:
    """Steps in the directory of all processes."""

    save_interval_steps: int = 1000
    max_to_keep: "int | None" = None
    keep_period: "int | None" = None
    should_save_fn: "_ShouldSave | None" = None
    save_decision_policy: Any = None
    preservation_policy: Any = None


@dataclasses.dataclass
class MultiprocessingOptions:
    """How long processes wait for each other."""

    coordination_timeout_secs: int = 120


@dataclasses.dataclass
class CheckpointManagerOptions:
    """Options of the emergency manager."""

    local: LocalCheckpointOptions = dataclasses.field(default_factory=LocalCheckpointOptions)
    persistent: PersistentCheckpointOptions = dataclasses.field(
        default_factory=PersistentCheckpointOptions
    )
    replica_axis_index: int = 0
    step_name_format: Any = dataclasses.field(default_factory=standard_name_format)
    cleanup_tmp_directories: bool = False
    enable_async_checkpointing: bool = True
    async_options: Any = None
    multiprocessing_options: "MultiprocessingOptions | None" = None
    single_host_load_and_broadcast: bool = True


class CheckpointManager(UnavailableManager):
    """Raises NotImplementedError: it is not available."""

    @property
    def in_primary_slice(self) -> bool:
        """Whether this process belongs to the slice that saves for all."""
        raise NotImplementedError

    @property
    def global_mesh(self) -> Any:
        """The mesh of all slices."""
        raise NotImplementedError


__all__ = [
    "CheckpointManager",
    "CheckpointManagerOptions",
    "LocalCheckpointOptions",
    "MultiprocessingOptions",
    "PersistentCheckpointOptions",
]
