"""How long the parts of saving and restoring a step took. Times are those of time.time(), in s."""

import contextlib
import dataclasses
import time
from collections.abc import Iterator
from typing import Any


@dataclasses.dataclass
class SaveStepStatistics:
    """A call of CheckpointManager.save().

    wait_for_prev: until the save before was done. checkpointer_blocking: the call of the
    checkpointer. get_old_steps: finding the steps to be removed. checkpoint_manager_blocking: all.
    time_between_consecutive_saves_sec: from the end of the save before to the start of this one.
    """

    step: "int | None" = None
    event_type: "str | None" = "save"
    directory: "str | None" = None
    reached_preemption: "bool | None" = False
    preemption_received_at: "float | None" = None
    synchronous: "bool | None" = False
    wait_for_prev_start_time: "float | None" = None
    wait_for_prev_duration_secs: "float | None" = None
    time_between_consecutive_saves_sec: "float | None" = None
    checkpointer_blocking_start_time: "float | None" = None
    checkpointer_blocking_duration_secs: "float | None" = None
    get_old_steps_start_time: "float | None" = None
    get_old_steps_duration_secs: "float | None" = None
    checkpoint_manager_blocking_start_time: "float | None" = None
    checkpoint_manager_blocking_duration_secs: "float | None" = None


@dataclasses.dataclass
class RestoreStepStatistics:
    """A call of CheckpointManager.restore(), and that of the checkpointer within it."""

    step: "int | None" = None
    event_type: "str | None" = "restore"
    directory: "str | None" = None
    checkpointer_start_time: "float | None" = None
    checkpointer_duration_secs: "float | None" = None
    checkpoint_manager_start_time: "float | None" = None
    checkpoint_manager_duration_secs: "float | None" = None


@dataclasses.dataclass
class EmergencyRestoreStepStatistics:
    """A restore of Orbax's emergency manager. Nothing in cairn.orbax fills it in."""

    step: "int | None" = None
    event_type: "str | None" = "emergency_restore"
    checkpoint_manager_start_time: "float | None" = None
    directory: "str | None" = None
    is_restoring_slice: "bool | None" = False
    in_primary_slice: "bool | None" = False
    checkpointer_start_time: "float | None" = None
    checkpointer_duration_secs: "float | None" = None
    broadcast_start_time: "float | None" = None
    broadcast_duration_secs: "float | None" = None
    checkpoint_manager_duration_secs: "float | None" = None


@contextlib.contextmanager
def timed(statistics: Any, part: str) -> Iterator[None]:
    """Fills in PART_start_time, and PART_duration_secs if the block completes."""
    start = time.time()
    setattr(statistics, f"{part}_start_time", start)
    yield
    setattr(statistics, f"{part}_duration_secs", time.time() - start)
