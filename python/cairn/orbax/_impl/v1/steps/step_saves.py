"""The saves and deletions of a Checkpointer: one of each goes on at a time."""

import dataclasses
import threading
import time
from collections.abc import Callable
from typing import Any

from cairn.orbax._impl.base.loggers import AbstractLogger
from cairn.orbax._impl.base.processes import reached_preemption
from cairn.orbax._impl.base.step_statistics import SaveStepStatistics, timed
from cairn.orbax._impl.v1 import saving
from cairn.orbax._impl.v1.context import Context, get_context
from cairn.orbax._impl.v1.deletion import begin_deletion
from cairn.orbax._impl.v1.handlers.leaf_types import check_state
from cairn.orbax._impl.v1.names import STATE, check_to_save
from cairn.orbax._impl.v1.responses import AsyncResponse, Background
from cairn.orbax._impl.v1.steps.step_list import StepList
from cairn.orbax._impl.v1.steps.step_types import (
    CheckpointMetadata,
    StepAlreadyExistsError,
    StepNotFoundError,
)


class SaveCancelledError(RuntimeError):
    """cancel() has ended the save."""


class StepSaves:
    """The part of Checkpointer that writes."""

    def __init__(
        self, context: Context, directory: Any, steps: StepList, logger: AbstractLogger
    ) -> None:
        self._context = context
        self._directory = directory
        self._steps = steps
        self._logger = logger
        self._last_save_time: float | None = None
        self._save: Background | None = None
        self._cancelled = threading.Event()
        self._deletion: Background | None = None

    def should_save(self, step: int) -> bool:
        """Whether save() would save the step."""
        return self._is_wanted(step_number(step), False)

    def _is_wanted(self, step: int, replace: bool) -> bool:
        processes = get_context(self._context).multiprocessing
        is_saving = self.is_saving_in_progress()
        return self._steps.should_save(step, is_saving, processes, replace)

    def save(
        self,
        step: int,
        state: Any,
        *,
        checkpointable_name: str = STATE,
        force: bool = False,
        overwrite: bool = False,
        metrics: Any = None,
        custom_metadata: Any = None,
    ) -> bool:
        """Saves a tree as a step and waits until it is durable.

        Args:
          step: its number.
          state: a tree, as for save() of the module.
          checkpointable_name: the name of the tree.
          force: save although the policy says no, or the step is not later than the last one.
          overwrite: replace the step, if it is there; it stays until the new one is complete.
          metrics: a dict for JSON, stored with the step; policies see it.
          custom_metadata: a dict for JSON, stored with the step.

        Returns:
          False if the step is not wanted.

        Raises:
          StepAlreadyExistsError: a FileExistsError.
        """
        check_state(state)
        return self.save_checkpointables(
            step,
            {checkpointable_name: state},
            force=force,
            overwrite=overwrite,
            metrics=metrics,
            custom_metadata=custom_metadata,
        )

    def save_checkpointables(
        self, step: int, checkpointables: "dict[str, Any]", **options: Any
    ) -> bool:
        """Saves named objects as a step. Options as those of save()."""
        response = self.save_checkpointables_async(step, checkpointables, **options)
        return False if response is None else bool(response.result())

    def save_async(
        self,
        step: int,
        state: Any,
        *,
        checkpointable_name: str = STATE,
        **options: Any,
    ) -> "AsyncResponse[bool] | None":
        """As save(), but returns when everything is copied. None if the step is not wanted."""
        check_state(state)
        return self.save_checkpointables_async(step, {checkpointable_name: state}, **options)

    def save_checkpointables_async(
        self,
        step: int,
        checkpointables: "dict[str, Any]",
        *,
        force: bool = False,
        overwrite: bool = False,
        metrics: Any = None,
        custom_metadata: Any = None,
    ) -> "AsyncResponse[bool] | None":
        """As save_checkpointables(), but returns when everything is copied."""
        statistics = SaveStepStatistics(step=step, directory=str(self._directory))
        with timed(statistics, "checkpoint_manager_blocking"):
            response = self._begin_save(
                step, checkpointables, force, overwrite, metrics, custom_metadata, statistics
            )
        if response is not None:
            self._logger.log_entry(dataclasses.asdict(statistics))
        return response

    def _begin_save(
        self,
        step: int,
        checkpointables: "dict[str, Any]",
        force: bool,
        overwrite: bool,
        metrics: Any,
        custom_metadata: Any,
        statistics: SaveStepStatistics,
    ) -> "AsyncResponse[bool] | None":
        self._wait_for_deletion()
        context = get_context(self._context)
        check_to_save(checkpointables)
        exists = any(one.step == step for one in self._steps.all())
        if exists and not overwrite:
            raise StepAlreadyExistsError(f"{self._directory}: step {step} already exists")
        if not force and not self._is_wanted(step, exists):
            return None
        if reached_preemption(step):
            statistics.reached_preemption = True
            statistics.preemption_received_at = time.time()
        with timed(statistics, "wait_for_prev"):
            self._wait_for_save()
        if self._last_save_time is not None:
            started: Any = statistics.wait_for_prev_start_time
            statistics.time_between_consecutive_saves_sec = started - self._last_save_time
        self._cancelled.clear()
        with timed(statistics, "checkpointer_blocking"):
            finish = saving.begin(
                context,
                self._steps.path(step),
                checkpointables,
                True,
                custom_metadata,
                is_step=True,
                metrics=metrics,
                check=self._check_not_cancelled,
            )
        self._steps.drop(step)
        with timed(statistics, "get_old_steps"):
            old = self._steps.add(step, metrics)
        callback = context.asynchronous.post_finalization_callback

        def work() -> bool:
            try:
                finish()
            except BaseException:
                self._steps.drop(step)
                raise
            self._last_save_time = time.time()
            if callback is not None:
                callback()
            self._steps.remove(old)  # not before the new step is durable
            return True

        self._save = Background(work, "cairn-orbax-checkpointer")
        return _Response(self, self._save)

    def _check_not_cancelled(self) -> None:
        if self._cancelled.is_set():
            raise SaveCancelledError(f"{self._directory}: the save was cancelled")

    def cancel(self, step: Any = None) -> None:
        """Ends a save that goes on, as far as it can, and deletes the step, if one is given."""
        self._wait_for_deletion()
        self._cancelled.set()
        if self._save is not None:
            error = self._save.error()
            self._save = None
            if error is not None and not isinstance(error, SaveCancelledError):
                raise error
        if step is not None and any(one.step == step_number(step) for one in self._steps.all()):
            self.delete(step_number(step), missing_ok=True)

    def is_saving_in_progress(self) -> bool:
        """Whether a save goes on in the background."""
        return self._save is not None and not self._save.done()

    # ---- deletions ----

    def delete(
        self, step: Any, *, checkpointable_name: "str | None" = None, missing_ok: bool = False
    ) -> bool:
        """Deletes a step, or one of its parts, as delete() of the module.

        Raises StepNotFoundError, a FileNotFoundError.
        """
        response = self.delete_async(
            step, checkpointable_name=checkpointable_name, missing_ok=missing_ok
        )
        self._wait_for_deletion()
        return response.result()

    def delete_async(
        self, step: Any, *, checkpointable_name: "str | None" = None, missing_ok: bool = False
    ) -> "AsyncResponse[bool]":
        """As delete(), in the background. The step is not among `checkpoints` from now on."""
        number = step.step if isinstance(step, CheckpointMetadata) else step
        if not isinstance(number, int) or isinstance(number, bool):
            raise TypeError(f"step must be an int, not {type(number)}")
        if number < 0:
            raise ValueError(f"step must not be negative, but is {number}")
        self.wait()
        path = self._steps.path(number)
        if not path.exists() and not missing_ok:
            raise StepNotFoundError(f"{self._directory}: there is no step {number}")
        work = begin_deletion(self._context, path, checkpointable_name, missing_ok, is_step=True)
        if checkpointable_name is None:
            self._steps.drop(number)
        self._deletion = Background(work, "cairn-orbax-delete")
        return self._deletion

    # ---- waiting ----

    def _wait_for_deletion(self) -> None:
        pending, self._deletion = self._deletion, None
        if pending is not None:
            pending.result()

    def _wait_for_save(self) -> None:
        pending, self._save = self._save, None
        if pending is not None:
            pending.result()

    def wait(self) -> None:
        """Waits for what goes on. Raises its error, once."""
        self._wait_for_deletion()
        self._wait_for_save()

    def close(self) -> None:
        """Waits for what goes on."""
        try:
            self._wait_for_deletion()
        finally:
            self._wait_for_save()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def forget(self, save: Background) -> None:
        """The error of this save has been raised."""
        if self._save is save:
            self._save = None


def step_number(step: Any) -> int:
    return step if isinstance(step, int) else int(step.step)


class _Response(AsyncResponse[bool]):
    """A save of a Checkpointer."""

    def __init__(self, owner: StepSaves, save: Background) -> None:
        self._owner = owner
        self._save = save

    def result(self, timeout: "float | None" = None) -> bool:
        """Waits until the step is durable. Raises the error of the save."""
        try:
            return bool(self._save.result(timeout))
        finally:
            if self._save.done():
                self._owner.forget(self._save)

    def on_complete(self, callback: "Callable[[Any], None]") -> None:
        """Calls a function with True, if there is no error."""
        self._save.on_complete(callback)
