"""Waits for the steps of another process."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from cairn.orbax._impl.base.processes import process_count, process_index
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.steps import step_names
from cairn.orbax._impl.steps.snapshots import held


@contextlib.contextmanager
def wait_for_new_checkpoint(
    checkpoint_dir: Any,
    *,
    until_step: "int | None" = None,
    seconds_to_sleep: int = 1,
    timeout: "int | None" = None,
    timeout_fn: "Callable[[], bool] | None" = None,
    step_prefix: "str | None" = None,
    step_format_fixed_length: "int | None" = None,
    step_name_format: Any = None,
    snapshot_dir: Any = None,
    set_immutable: "bool | None" = None,
    ignore_snapshot_errors: "bool | None" = True,
) -> "Iterator[int]":
    """A context: waits until a directory has a step that is at least until_step.

    In the context, the step has a snapshot: files that stay even if the step is removed. They are
    second names of the step's files, so they take no room of their own. In a store they are copies,
    which the store makes.

    Args:
      checkpoint_dir: of the steps; it may be missing.
      until_step: the least step.
      seconds_to_sleep: between two checks.
      timeout: seconds until it gives up; None: never.
      timeout_fn: called after the timeout, and then with every check; True: give up.
      step_prefix: of the names of steps.
      step_format_fixed_length: digits of the names of steps.
      step_name_format: in place of both.
      snapshot_dir: of snapshots; None: _SNAPSHOTS in checkpoint_dir.
      set_immutable: None or False.
      ignore_snapshot_errors: go on without a snapshot if the step disappears meanwhile.

    Yields:
      The latest step; -1 if it gave up. The same in all processes.

    Raises:
      ValueError: the directory of snapshots cannot be made.
      FileNotFoundError: the step has disappeared, and ignore_snapshot_errors is False.
    """
    if set_immutable:
        raise NotImplementedError("set_immutable: the files are those of the step itself")
    chosen = step_name_format or step_names.standard_name_format(
        step_prefix=step_prefix, step_format_fixed_length=step_format_fixed_length
    )
    step = -1
    if process_index() == 0:
        step = _wait(checkpoint_dir, chosen, until_step, seconds_to_sleep, timeout, timeout_fn)
    step = _of_first_process(step)
    if step == -1:
        yield step
        return
    step_dir = as_path(checkpoint_dir) / chosen.build_name(step)
    with held(step_dir, snapshot_dir, bool(ignore_snapshot_errors)):
        yield step


def _of_first_process(step: int) -> int:
    if process_count() == 1:
        return step
    import numpy as np
    from jax.experimental.multihost_utils import broadcast_one_to_all

    return int(broadcast_one_to_all(np.int32(step)))


def _wait(
    checkpoint_dir: Any,
    chosen: Any,
    until_step: "int | None",
    seconds_to_sleep: int,
    timeout: "int | None",
    timeout_fn: "Callable[[], bool] | None",
) -> int:
    end = None if timeout is None else time.monotonic() + timeout
    while True:
        found = None
        if as_path(checkpoint_dir).exists():
            found = step_names.latest_step_metadata(checkpoint_dir, chosen)
        if found is not None and found.step >= (until_step or 0):
            return int(found.step)
        is_late = end is not None and time.monotonic() + seconds_to_sleep > end
        if is_late and (timeout_fn is None or timeout_fn()):
            return -1
        time.sleep(seconds_to_sleep)


def checkpoints_iterator(
    checkpoint_dir: Any,
    *,
    min_interval_secs: int = 0,
    seconds_to_sleep: int = 1,
    timeout: "int | None" = None,
    timeout_fn: "Callable[[], bool] | None" = None,
    step_prefix: "str | None" = None,
    step_format_fixed_length: "int | None" = None,
    step_name_format: Any = None,
    snapshot_dir: Any = None,
    set_immutable: "bool | None" = None,
    ignore_snapshot_errors: "bool | None" = True,
) -> "Iterator[int]":
    """The latest steps of a directory as they appear. Arguments as wait_for_new_checkpoint().

    min_interval_secs: between two steps that are returned; those in between are skipped.
    """
    wanted = None
    while True:
        begin = time.monotonic()
        with wait_for_new_checkpoint(
            checkpoint_dir,
            until_step=wanted,
            seconds_to_sleep=seconds_to_sleep,
            timeout=timeout,
            timeout_fn=timeout_fn,
            step_prefix=step_prefix,
            step_format_fixed_length=step_format_fixed_length,
            step_name_format=step_name_format,
            snapshot_dir=snapshot_dir,
            set_immutable=set_immutable,
            ignore_snapshot_errors=ignore_snapshot_errors,
        ) as step:
            if step != -1:
                yield step
        if step == -1:  # the function is asked once more, as in Orbax
            if timeout_fn is None or timeout_fn():
                return
            continue
        wanted = step + 1
        time.sleep(max(0.0, begin + min_interval_secs - time.monotonic()))
