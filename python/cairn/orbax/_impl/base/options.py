"""Options of checkpointers."""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any


@dataclasses.dataclass
class AsyncOptions:
    """How a save goes on in the background.

    timeout_secs is how long the writes may take, and how long other processes wait for them: a save
    that takes longer is stopped and removed, and fails with a TimeoutError. It must be positive.
    create_directories_asynchronously cannot matter here: a local directory is made at once.
    """

    timeout_secs: int = 1200
    barrier_sync_fn: Any = None
    post_finalization_callback: "Callable[[], None] | None" = None
    create_directories_asynchronously: bool = True

    def __post_init__(self) -> None:
        if self.barrier_sync_fn is not None:
            raise NotImplementedError("AsyncOptions.barrier_sync_fn: cairn.orbax has its own")


@dataclasses.dataclass
class MultiprocessingOptions:
    """Which processes save: all of jax.distributed. Process 0 is the primary."""

    primary_host: "int | None" = 0
    active_processes: "set[int] | None" = None
    barrier_sync_key_prefix: "str | None" = None

    def __post_init__(self) -> None:
        if self.active_processes is not None and set(self.active_processes) != {0}:
            raise NotImplementedError(
                "MultiprocessingOptions.active_processes: all processes save together"
            )


@dataclasses.dataclass
class FileOptions:
    """How files are made. skip_sync_file_validations is about other processes only.

    path_permission_mode: the mode of the directories of steps and items, less the umask of the
    process: 0o770. Files have the mode that the umask gives them.
    """

    path_permission_mode: "int | None" = None
    skip_sync_file_validations: bool = False


class AtomicityMode(str, enum.Enum):
    """How a checkpoint becomes complete."""

    AUTO = "auto"
    ATOMIC_RENAME = "atomic_rename"
    COMMIT_FILE = "commit_file"


@dataclasses.dataclass
class AtomicityOptions:
    """How a checkpoint becomes complete.

    AUTO and ATOMIC_RENAME: it is renamed, and a commit file tells other readers. COMMIT_FILE: it is
    written at its path, and counts only when it has that file; with allow_legacy_atomic_rename also
    without the file.
    """

    mode: AtomicityMode = AtomicityMode.AUTO
    allow_legacy_atomic_rename: bool = False


@dataclasses.dataclass
class MemoryLimitOptions:
    """The bound of save_device_host_concurrent_gb='auto'."""

    max_transfer_concurrent_gb: "int | None" = None
