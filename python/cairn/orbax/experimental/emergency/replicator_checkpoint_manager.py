"""The manager for checkpoints that a replicator copies, and its options. It is not available."""

import dataclasses
from collections.abc import Callable
from typing import Any

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax.experimental.emergency._unavailable import UnavailableManager

__getattr__ = _hints(__name__)


@dataclasses.dataclass
class ReplicatorCheckpointManagerOptions:
    """Options of the replicator's manager."""

    save_interval_steps: int = 1
    step_name_format: Any = None
    should_save_fn: "Callable[[int, int | None], bool] | None" = None
    preservation_policy: Any = None
    use_colocated_python: bool = False
    enable_async_checkpointing: bool = True
    save_concurrent_gb: "int | None" = None
    restore_concurrent_gb: "int | None" = None


class ReplicatorCheckpointManager(UnavailableManager):
    """Raises NotImplementedError: it is not available."""

    @property
    def global_mesh(self) -> Any:
        """The mesh of all slices."""
        raise NotImplementedError

    def is_saving_in_progress(self) -> bool:
        """Whether a save goes on."""
        raise NotImplementedError


__all__ = ["ReplicatorCheckpointManager", "ReplicatorCheckpointManagerOptions"]
