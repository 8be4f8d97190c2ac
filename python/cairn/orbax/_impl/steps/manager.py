"""CheckpointManager: the checkpoints of a training run."""

import dataclasses
import datetime
import logging
import numbers
import operator
import time
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from typing import Any

from cairn.orbax._impl.base import monitoring
from cairn.orbax._impl.base.background import Background
from cairn.orbax._impl.base.loggers import StandardLogger
from cairn.orbax._impl.base.processes import Group, reached_preemption
from cairn.orbax._impl.base.step_statistics import RestoreStepStatistics, SaveStepStatistics, timed
from cairn.orbax._impl.commit.checkpointer import AsyncCheckpointer
from cairn.orbax._impl.handlers.args import CheckpointArgs
from cairn.orbax._impl.handlers.composite_handler import CompositeArgs
from cairn.orbax._impl.handlers.json_handler import JsonSaveArgs
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.paths.object_stores import listed_once
from cairn.orbax._impl.paths.parallel import ask_all
from cairn.orbax._impl.paths.permissions import make, mode_of
from cairn.orbax._impl.steps import manager_setup, step_names
from cairn.orbax._impl.steps.abstract_manager import AbstractCheckpointManager
from cairn.orbax._impl.steps.deletion import StepRemoval, remove_unfinished
from cairn.orbax._impl.steps.infos import CheckpointInfo, CheckpointInfos, warn_if_incomplete
from cairn.orbax._impl.steps.manager_items import ManagerItems
from cairn.orbax._impl.steps.manager_options import CheckpointManagerOptions
from cairn.orbax._impl.steps.manager_setup import METRICS_ITEM
from cairn.orbax._impl.steps.preservation_policy import PreservationContext
from cairn.orbax._impl.steps.root_metadata import RootMetadataFile
from cairn.orbax._impl.steps.save_decision_policy import DecisionContext
from cairn.orbax._impl.stored.step_metadata import StepMetadata

_log = logging.getLogger("cairn.orbax")


class StepAlreadyExistsError(ValueError):
    """The step is there already."""


def _number(step: int) -> int:
    """The number of a step. The list of steps must not keep an array of JAX."""
    return step if isinstance(step, numbers.Integral) else operator.index(step)


def _now() -> datetime.datetime:
    return datetime.datetime.now(tz=datetime.timezone.utc)


class CheckpointManager(AbstractCheckpointManager):
    """Saves, keeps, removes and restores the steps of a directory. Orbax's manager continues it.

    A step has one item, named by nobody, or several: the first save or restore decides. Saves go on
    in the background, unless options.enable_async_checkpointing is False. Their error is raised
    once, by the next save(), wait_until_finished(), check_for_errors() or close().
    """

    def __init__(
        self,
        directory: Any,
        checkpointers: Any = None,
        options: "CheckpointManagerOptions | None" = None,
        metadata: "Mapping[str, Any] | None" = None,
        item_names: Any = None,
        item_handlers: Any = None,
        logger: Any = None,
        handler_registry: Any = None,
    ) -> None:
        self._logger = logger or StandardLogger()
        self._options = options or CheckpointManagerOptions()
        monitoring.manager_made(directory, self._options, checkpointers)
        self._saves = self._options.saves()
        self._keeps = self._options.keeps()
        self._checkpointer, single = manager_setup.make_checkpointer(
            checkpointers, self._options, item_names, item_handlers, handler_registry
        )
        self._items = ManagerItems(self._checkpointer, single)
        self._directory = as_path(directory)
        self._atomicity = self._options.atomicity().at(self._directory)
        self._group = Group(self._options.multiprocessing_options)
        self._format = self._options.step_name_format or step_names.standard_name_format(
            step_prefix=self._options.step_prefix,
            step_format_fixed_length=self._options.step_format_fixed_length,
            temporary_path_cls=self._options.temporary_path_class,
            atomicity_options=self._options.atomicity_options,
        )
        self._removal = StepRemoval(
            self._directory,
            self._format,
            self._options.todelete_subdir,
            self._options.todelete_full_path,
            self._options.enable_background_delete,
            self._atomicity.is_in_place,
        )
        self._group.step("open", self._make_directory)
        begin = time.time()
        # Subclasses of users read it: it has the name that it has in Orbax.
        self._checkpoints = CheckpointInfos(self._load_infos(self._options.lightweight_initialize))
        monitoring.steps_listed(time.time() - begin)
        self._due: list[int] = []  # to be removed when a save completes
        if self._group.is_primary():
            self._root_metadata = RootMetadataFile(self._directory, self._options, metadata)
        self._group.step("opened", lambda: None)
        if not self._group.is_primary():
            self._root_metadata = RootMetadataFile(self._directory, self._options, metadata)
        self._background = Background("")  # of the saves
        if isinstance(self._checkpointer, AsyncCheckpointer):
            self._background = self._checkpointer._background
            self._checkpointer._after_commit = self._finish
        self._removable: Future[list[int]] = Future()  # when the save is durable
        self._saving: int | None = None
        self._last_save_time: float | None = None

    def _make_directory(self) -> None:
        if self._options.create:
            make(self._directory, mode_of(self._options.file_options))
        if self._options.cleanup_tmp_directories and self._directory.exists():
            remove_unfinished(self._directory)

    # ---- which steps there are ----

    @property
    def directory(self) -> Any:
        """The directory of the steps."""
        return self._directory

    def all_steps(self, read: bool = False) -> "list[int]":
        """The steps, in the order of their saves. read=True is reload() before."""
        if read:
            _log.warning("`read` option is deprecated. Use `reload` to read from disk.")
            self.reload()
        return [info.step for info in self._checkpoints]

    def latest_step(self) -> "int | None":
        """The step that was saved last, or None."""
        latest = self._checkpoints.latest()
        return None if latest is None else latest.step

    def best_step(self) -> "int | None":
        """The best step by best_fn, of those with metrics; without best_fn the latest."""
        best_fn = self._options.best_fn
        if best_fn is None:
            return self.latest_step()
        measured = [info for info in self._checkpoints if info.metrics is not None]
        measured.sort(
            key=lambda info: best_fn(info.metrics), reverse=self._options.best_mode == "min"
        )
        return measured[-1].step if measured else None

    def reload(self) -> None:
        """Lists the directory again."""
        begin = time.time()
        self._checkpoints.set(self._load_infos(False))
        monitoring.steps_listed(time.time() - begin)
        self._due = []  # listed again, if they are there

    def _load_infos(self, light: bool) -> "list[CheckpointInfo]":
        if not self._directory.exists():
            return []

        def describe(found: Any) -> "CheckpointInfo | None":
            is_of_user = self._options.step_name_format is not None
            if is_of_user and not self._atomicity.is_complete(found.path):
                return None
            if light:
                return CheckpointInfo(found.step, datetime.datetime.min)
            return CheckpointInfo(found.step, found.commit_timestamp, self.metrics(found.step))

        with listed_once(self._directory):
            described = ask_all(self._directory, describe, self._format.find_all(self._directory))
        infos = [info for info in described if info is not None]
        infos.sort(key=lambda info: info.step)
        if infos:
            warn_if_incomplete(self._read_path(infos[-1].step, self._directory))
        return infos

    def _read_path(self, step: int, directory: Any) -> Any:
        if self._options.step_name_format is not None:
            return self._format.find_step(directory, step).path
        return step_names.build_step_path(directory, self._format, step)

    # ---- saving ----

    def reached_preemption(self, step: int) -> bool:
        """Whether this is the step to save because a process is about to be ended."""
        return reached_preemption(step)

    def should_save(self, step: int) -> bool:
        """Whether save() would save the step."""
        if self._warn_if_read_only("save"):
            return False
        latest = self.latest_step()
        if latest is not None and latest >= step:
            return False
        checked = self._options.enable_should_save_is_saving_in_progress_check
        context = DecisionContext(
            is_saving_in_progress=checked and self.is_saving_in_progress(),
            reached_preemption=self.reached_preemption(step),
            multiprocessing_options=self._options.multiprocessing_options,
        )
        info = CheckpointInfo(step, _now())
        return bool(self._saves.should_save(info, list(self._checkpoints), context=context))

    def save(
        self,
        step: int,
        items: Any = None,
        save_kwargs: Any = None,
        metrics: Any = None,
        force: "bool | None" = False,
        args: "CheckpointArgs | None" = None,
        custom_metadata: "dict[str, Any] | None" = None,
    ) -> bool:
        """Saves a step.

        Args:
          step: its number.
          items: an object, or a dict of them, for the manager's handlers; better: args.
          save_kwargs: their arguments.
          metrics: the values for best_fn; stored if there is a best_fn.
          force: save although the options say no.
          args: arguments of the item, or args.Composite with those of several.
          custom_metadata: a dict for JSON, stored with the step.

        Returns:
          False if the options do not want the step.

        Raises:
          StepAlreadyExistsError: it is there.
          TypeError: the step is not a whole number.
          ValueError: there are no arguments, or those of the wrong kind.
        """
        statistics = SaveStepStatistics(directory=str(self._directory))
        with timed(statistics, "checkpoint_manager_blocking"):
            if not self._group.step(
                "decide", lambda: self._decide(step, items, args, bool(force)), everywhere=True
            ):
                if not self._group.is_primary():
                    self._warn_if_read_only("save")
                return False
            step = _number(step)
            self._wait_for_previous(step, statistics)
            begin = time.time()
            if step in self.all_steps():
                raise StepAlreadyExistsError(f"Checkpoint for step {step} already exists.")
            named = self._items.named(items, save_kwargs, args, for_save=True)
            has_metrics = metrics is not None and self._options.best_fn is not None
            if metrics is None and self._options.best_fn is not None:
                _log.warning("Requested `tracked_metric`; did not provide metrics.")
            if has_metrics and not self._options.prevent_write_metrics:
                named[METRICS_ITEM] = JsonSaveArgs(metrics)
            monitoring.step_validated(time.time() - begin)
            removable: Future[list[int]] = Future()
            self._removable = removable
            try:
                with timed(statistics, "checkpointer_blocking"):
                    self._checkpointer.save(
                        step_names.build_step_path(self._directory, self._format, step),
                        args=CompositeArgs(**named),
                        custom_metadata=custom_metadata,
                        force=True,
                    )
                self._checkpoints.append(CheckpointInfo(step, _now(), metrics))
                removable.set_result(self._select_old(step, statistics))
            finally:
                removable.cancel()  # the thread of the save does not wait for what has failed
            if not isinstance(self._checkpointer, AsyncCheckpointer):
                statistics.synchronous = True
                self._finish()
        self._logger.log_entry(dataclasses.asdict(statistics))
        return True

    def _decide(self, step: int, items: Any, args: Any, force: bool) -> bool:
        """Whether the step is saved, which the primary decides. Each process checks its own call,
        because the others must learn of an error."""
        if items is None and args is None:
            raise ValueError("Must provide `args` for `save`.")
        self._items.decide_by_args(args)
        self._items.check(items, args)
        number = _number(step)
        return self._group.is_primary() and (force or self.should_save(number))

    def _warn_if_read_only(self, what: str) -> bool:
        """Whether the directory is read only. A warning says that `what` is skipped."""
        if self._options.read_only:
            _log.warning("%s is read only, %s will be skipped", self._directory, what)
        return self._options.read_only

    def _wait_for_previous(self, step: int, statistics: SaveStepStatistics) -> None:
        """Waits for the save before; its error is raised."""
        statistics.step = step
        if self.reached_preemption(step):
            statistics.reached_preemption = True
            statistics.preemption_received_at = time.time()
        is_over = self._last_save_time is not None  # else Orbax reports no time between the two
        with timed(statistics, "wait_for_prev"):
            self.wait_until_finished()
        if self._last_save_time is not None:
            started: Any = statistics.wait_for_prev_start_time
            statistics.time_between_consecutive_saves_sec = started - self._last_save_time
            if is_over:
                monitoring.between_saves(started - self._last_save_time)

    def _select_old(self, step: int, statistics: SaveStepStatistics) -> "list[int]":
        """The steps to remove when the new one is durable."""
        with timed(statistics, "get_old_steps"):
            begin = time.time()
            old = self._group.step("keep", self._unkept)
            monitoring.steps_chosen(time.time() - begin, len(self._checkpoints))
        self._checkpoints.delete_if(lambda info: info.step in old)
        due = [one for one in self._due if one != step and self._is_there(one)]
        self._due = [*due, *old]
        self._saving = step
        return self._due

    def _unkept(self) -> "list[int]":
        infos = list(self._checkpoints)
        kept = self._keeps.should_preserve(infos, context=PreservationContext())
        return [info.step for info, keep in zip(infos, kept, strict=True) if not keep]

    def _finish(self) -> None:
        """Ends a save that is durable, in its thread. No older step is removed before."""
        try:
            old = self._removable.result()
        except CancelledError:  # the caller has the error that prevented the choice
            return
        self._last_save_time = time.time()
        self._due = []
        self._remove_steps(old)
        monitoring.old_steps_removed(time.time() - self._last_save_time)

    # ---- restoring ----

    def restore(
        self,
        step: "int | None" = None,
        items: Any = None,
        restore_kwargs: Any = None,
        directory: Any = None,
        args: "CheckpointArgs | None" = None,
    ) -> Any:
        """Restores a step (None: the latest): its item, or a Composite of several.

        Args:
          step: its number.
          items: a target, or a dict of them; better: args.
          restore_kwargs: arguments of the handlers.
          directory: of the steps, in place of the manager's.
          args: arguments of the item, or args.Composite with those of several.

        Raises:
          FileNotFoundError: there is no such step, or none at all.
          KeyError: an item is not stored.
          ValueError: the arguments are of the wrong kind, or a handler is not known.
        """
        statistics = RestoreStepStatistics()
        with timed(statistics, "checkpoint_manager"):
            restored = self._restore(step, items, restore_kwargs, directory, args, statistics)
        self._logger.log_entry(dataclasses.asdict(statistics))
        return restored

    def _restore(
        self,
        step: "int | None",
        items: Any,
        restore_kwargs: Any,
        directory: Any,
        args: "CheckpointArgs | None",
        statistics: RestoreStepStatistics,
    ) -> Any:
        if step is None:
            if directory is None:
                step = self.latest_step()
            else:
                step = max(step_names.checkpoint_steps(directory), default=None)
            if step is None:
                raise FileNotFoundError(f"No steps found in {directory or self._directory}.")
        statistics.step = step
        statistics.directory = str(directory or self._directory)
        path = self._read_path(step, as_path(directory or self._directory))
        self._items.decide_by_path(path)
        self._items.check(items, args)
        named = self._items.named(items, restore_kwargs, args, for_save=False)
        with timed(statistics, "checkpointer"):
            restored = self._checkpointer.restore(path, args=CompositeArgs(**named))
        return self._items.result(restored)

    # ---- metadata ----

    def metrics(self, step: int) -> Any:
        """The metrics of a step; None if it has none."""
        try:
            path = self._read_path(step, self._directory)
            return manager_setup.metrics_handler().restore(path / METRICS_ITEM)
        except FileNotFoundError:
            return None

    def item_metadata(self, step: int) -> Any:
        """The metadata of the item of a step, or of its items."""
        if step is None:
            raise ValueError("`step` must be provided: items are those of a step")
        return self.metadata(step).item_metadata

    def metadata(self, step: "int | None" = None) -> Any:
        """The metadata of a step; without one, that of the directory."""
        return self._root_metadata.read() if step is None else self._get_step_metadata(step)

    def _get_step_metadata(self, step: int) -> StepMetadata:
        path = self._read_path(step, self._directory)
        found = self._checkpointer.metadata(path)
        self._items.decide_by_path(path)
        found.item_metadata = self._items.result(found.item_metadata)
        if isinstance(found.item_handlers, dict) and METRICS_ITEM in found.item_handlers:
            found.metrics = dict(self.metrics(step) or {})
        return found

    # ---- removing ----

    def delete(self, step: int) -> None:
        """Removes a step. Raises FileNotFoundError if there is no such step."""
        if not self._group.step("deletable", lambda: self._is_deletable(step), everywhere=True):
            return
        begin = time.time()
        self._group.step("delete", lambda: self._remove_steps([step]))
        if not self._group.is_primary():
            monitoring.step_removed(time.time() - begin)
        self._checkpoints.delete_if(lambda info: info.step == step)

    def _is_deletable(self, step: int) -> bool:
        """Whether this process may delete. Raises FileNotFoundError if there is no such step."""
        if self._warn_if_read_only("delete"):
            return False
        if step not in self.all_steps():
            raise FileNotFoundError(f"Requested deleting a non-existent step: {step}.")
        return True

    def _is_there(self, step: int) -> bool:
        try:
            return bool(self._read_path(step, self._directory).exists())
        except (FileNotFoundError, ValueError):  # by the format of the names
            return False

    def _remove_steps(self, steps: "list[int]") -> None:
        """The primary one of several processes removes. Each of them reports it, as in Orbax."""
        if self._group.is_primary():
            self._removal.remove(steps)
            return
        for _ in steps:
            monitoring.step_removed(0.0)

    # ---- waiting ----

    def is_saving_in_progress(self) -> bool:
        """Whether a save goes on in the background."""
        return self._background.is_running()

    def wait_until_finished(self) -> None:
        """Waits until the save is durable and old steps are removed. Raises its error, once."""
        begin = time.time()
        self._background.join()
        monitoring.manager_waited(time.time() - begin)
        self.check_for_errors()

    def check_for_errors(self) -> None:
        """Raises the error of a save that has ended, once. Does not wait."""
        try:
            self._background.check()
        except BaseException:
            self._checkpoints.delete_if(lambda info: info.step == self._saving)
            raise
        self._removal.background.check()

    def close(self) -> None:
        """Waits for what goes on. Nothing can be saved afterwards."""
        try:
            self.wait_until_finished()
        finally:
            self._removal.background.join()
            self._checkpointer.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
