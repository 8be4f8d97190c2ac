"""Restores like a target, and waits for the steps of another process."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from cairn.orbax._impl.leaves.leaf_args import PLACEHOLDER
from cairn.orbax._impl.leaves.restore_args import construct_restore_args
from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax._impl.paths import as_path
from cairn.orbax._impl.steps import step_names

__getattr__ = _hints(
    __name__,
    {
        "STANDARD_ARRAY_TYPES": "they are int, float, numpy.ndarray and jax.Array",
        "get_snapshot_dir_from_step_dir": "there are no snapshots",
    },
)


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

    Args:
      checkpoint_dir: of the steps; it may be missing.
      until_step: the least step.
      seconds_to_sleep: between two looks.
      timeout: seconds until it gives up; None: never.
      timeout_fn: asked after the timeout, and from then on with every look; True: give up.
      step_prefix: of the names of steps.
      step_format_fixed_length: digits of the names of steps.
      step_name_format: in place of both.
      snapshot_dir: not available, as what follows.
      set_immutable: of snapshots.
      ignore_snapshot_errors: of snapshots.

    Yields:
      The latest step; -1 if it gave up.
    """
    del ignore_snapshot_errors  # there are no snapshots
    if snapshot_dir is not None or set_immutable is not None:
        raise NotImplementedError("snapshot_dir: a step that is read may be removed by its writer")
    chosen = step_name_format or step_names.standard_name_format(
        step_prefix=step_prefix, step_format_fixed_length=step_format_fixed_length
    )
    yield _wait(checkpoint_dir, chosen, until_step, seconds_to_sleep, timeout, timeout_fn)


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


__all__ = [
    "PLACEHOLDER",
    "checkpoints_iterator",
    "construct_restore_args",
    "wait_for_new_checkpoint",
]
