"""The connection of a job to the replicator service. It is not available."""

from typing import Any, NoReturn

from cairn.orbax._impl.base.missing import hints as _hints

__getattr__ = _hints(__name__)


def initialize_multi_tier_checkpointing(
    local_checkpoint_directory: Any,
    *,
    backup_interval_minutes: "int | None" = None,
    backup_interval_steps: "int | None" = None,
    num_slices: "int | None" = None,
    run_name: "str | None" = None,
    data_parallelism: "int | None" = None,
    jax_initialization_timeout_seconds: int = 900,
    jax_shutdown_timeout_seconds: int = 300,
    use_mtc_process_ids: bool = True,
    use_colocated_python: bool = False,
    devices: Any = None,
) -> "NoReturn":
    """Raises NotImplementedError: the replicator service is not available."""
    raise NotImplementedError(
        f"{__name__}.initialize_multi_tier_checkpointing: the replicator service is not available; "
        "call jax.distributed.initialize and use cairn.orbax.CheckpointManager with a directory "
        "that all processes see"
    )


__all__ = ["initialize_multi_tier_checkpointing"]
