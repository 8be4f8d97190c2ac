"""cairn.CheckpointManager: the checkpoints of a training run."""

from __future__ import annotations

import os

from cairn import _cairn
from cairn._load import load
from cairn._long_calls import end_before_the_program, shown_in_background
from cairn._save import json_text, processes

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from typing import Any

    from typing_extensions import Unpack

    from cairn._options import LoadOptions, ManagerOptions


class CheckpointManager:
    """Saves, keeps and removes the steps of a directory. Orbax's manager can continue it.

    Args:
      directory: of the steps; made if it is missing and `create` is True. Or the URL of a run in a
        store: s3://bucket/run, gs://bucket/run.
      **options: which steps are saved: save_interval_steps (1), save_on_steps (a set), is_preempted
        (a function of the step). Which are kept: max_to_keep, keep_period, keep_time_interval
        (seconds), best_metric (a name) or best_fn (a function of the metrics), best_mode ("max",
        "min"), keep_checkpoints_without_metrics. The directory: step_prefix, step_digits,
        step_separator ("_"), create, read_only, cleanup_tmp_directories, todelete_subdir,
        root_metadata (JSON text).
        format ("orbax"): "dcp" makes each step a folder that torch.distributed.checkpoint.load()
        loads, and counts the steps that PyTorch has written. step_prefix="step",
        step_separator="-" continue a run of torchtitan. Such steps hold one tree; they have no
        use_ocdbt, use_zarr3, compression, target_file_bytes, support_rich_types and
        reuse_unchanged.
        enable_background_delete (False): a thread removes old steps, and the next save does not
        wait for it.
        prevent_write_metrics (False): metrics are for best_metric or best_fn only, not stored.
        enable_async_checkpointing (True): save() returns before the step is written.
        reuse_unchanged: arrays that have not changed share the files of the step before. And the
        options of save_async() except item and reuse_from. With a coordinator of several processes,
        each has a manager with the same options, and all call save() and delete() together.

    Only complete steps count. A folder that was copied in part, or that holds no checkpoint, causes
    a warning; incomplete_steps() has the reasons. A save of the same step replaces it. delete() of
    a step to which a symbolic link leads is a RuntimeError.

    An error of a save in the background is raised once, by the next call of save(), restore(),
    wait_until_finished() or close().
    """

    def __init__(
        self, directory: str | os.PathLike[str], **options: Unpack[ManagerOptions]
    ) -> None:
        self._prefix = options.get("step_prefix") or ""
        self._digits = options.get("step_digits") or 0
        separator = options.get("step_separator")
        self._separator = "_" if separator is None else separator
        self._is_orbax = options.get("format") != "dcp"
        chosen: dict[str, Any] = {**options}
        if self._is_orbax:
            chosen.setdefault("support_rich_types", True)
        coordinator, timeout = chosen.pop("coordinator", None), chosen.pop("timeout", 300)
        chosen["processes"] = processes(coordinator, timeout)
        self._store = options.get("storage_options")
        self._native = _cairn.Manager(directory, chosen)
        self._warn_of_incomplete_steps()
        self._bar = shown_in_background(None, "")  # of the last save
        end_before_the_program(self, self.directory)

    @property
    def directory(self) -> str:
        """The absolute path, or the URL."""
        return str(self._native.directory())

    def save(
        self,
        step: int,
        tree: Any,
        *,
        metrics: dict[str, float] | None = None,
        force: bool = False,
        metadata: dict[str, Any] | None = None,
        item_metadata: Any = None,
        progress: Any = None,
    ) -> bool:
        """Saves a tree as a step; False if the options do not want the step.

        Waits for the save before. metrics need best_metric or best_fn. force saves in any case.
        metadata, item_metadata and progress are as in cairn.save_async.
        """
        bar = shown_in_background(progress, f"step {step}")
        texts = json_text("metadata", metadata), json_text("item_metadata", item_metadata)
        try:
            saved = bool(self._native.save(step, tree, metrics, force, *texts, bar.callback))
        except BaseException:
            self._bar.close()  # the error may be that of the save before
            bar.close()
            raise
        if saved:
            self._bar = bar
        return saved

    def restore(
        self, step: int | None = None, target: Any = None, **options: Unpack[LoadOptions]
    ) -> Any:
        """The tree of a step (None: the latest). Options as those of cairn.load."""
        self.wait_until_finished()
        if step is None:
            step = self.latest_step()
            if step is None:
                reasons = "".join(
                    f"; step {s}: {why}" for s, why in self.incomplete_steps().items()
                )
                kind = "complete steps" if reasons else "steps"
                raise FileNotFoundError(f"{self.directory}: there are no {kind}{reasons}")
        if self._is_orbax:
            options.setdefault("item", "default")
        return load(self.step_path(step), target, storage_options=self._store, **options)

    def step_path(self, step: int) -> str:
        """The directory of a step."""
        name = _cairn.step_name(step, self._prefix, self._digits, self._separator)
        return os.path.join(self.directory, name)

    def all_steps(self) -> list[int]:
        """The complete steps, in the order of their saves."""
        return list(self._native.all_steps())

    def incomplete_steps(self) -> dict[int, str]:
        """Why other folders with the names of steps do not count: files are missing that their
        records name, or they hold no checkpoint."""
        return {step: reason for step, _, reason in self._native.incomplete_steps()}

    def _warn_of_incomplete_steps(self) -> None:
        for _, path, reason in self._native.incomplete_steps():
            import warnings

            warnings.warn(f"{path} does not count as a step: {reason}", stacklevel=3)

    def latest_step(self) -> int | None:
        """The step that was saved last."""
        return self._native.latest_step()

    def best_step(self) -> int | None:
        """The best step by its metrics; the latest if the manager has no best_metric or best_fn."""
        return self._native.best_step()

    def metrics(self, step: int) -> dict[str, float] | None:
        """The metrics of a step; None if it has none."""
        return self._native.metrics(step)

    def should_save(self, step: int) -> bool:
        """Returns True if save() would save the step."""
        return bool(self._native.should_save(step))

    def reached_preemption(self) -> bool:
        """Whether is_preempted has returned True for a save, in any of the processes. All get the
        same answer after the same save, so that all can end together."""
        return bool(self._native.reached_preemption())

    def delete(self, step: int) -> None:
        """Removes a step."""
        self._native.remove(step)

    def reload(self) -> None:
        """Lists the directory again."""
        self._native.reload()
        self._warn_of_incomplete_steps()

    def wait_until_finished(self) -> None:
        """Waits until the running save is durable. Raises its error."""
        try:
            self._native.wait()
        finally:
            self._bar.close()

    def check_for_errors(self) -> None:
        """Raises the error of a save that has ended. Does not wait."""
        self._native.check_for_errors()

    def is_saving_in_progress(self) -> bool:
        """Whether a save goes on in the background."""
        return bool(self._native.is_saving())

    def close(self) -> None:
        """Waits for a running save. Nothing can be saved afterwards."""
        try:
            self._native.close()
        finally:
            self._bar.close()

    def __enter__(self) -> CheckpointManager:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<cairn.CheckpointManager {self.directory!r}: {len(self.all_steps())} steps>"
