"""CheckpointManagerOptions."""

import dataclasses
import datetime
import logging
from collections.abc import Callable, Container
from typing import Any

from cairn.orbax._impl.base import options
from cairn.orbax._impl.steps import preservation_policy as keeping
from cairn.orbax._impl.steps import save_decision_policy as saving
from cairn.orbax._impl.stored.atomicity import Atomicity

_log = logging.getLogger("cairn.orbax")
_IGNORED_IF_READ_ONLY = {
    "save_interval_steps": 0,
    "max_to_keep": None,
    "keep_time_interval": None,
    "keep_period": None,
    "create": False,
    "cleanup_tmp_directories": False,
    "save_on_steps": None,
    "todelete_subdir": None,
    "todelete_full_path": None,
    "should_save_fn": None,
}


@dataclasses.dataclass
class CheckpointManagerOptions:
    """Options of CheckpointManager.

    Which steps are saved: save_decision_policy; else should_save_fn; else multiples of
    save_interval_steps, save_on_steps, and the first step. Which are kept: preservation_policy;
    else the last (or with best_fn the best) max_to_keep, multiples of keep_period, and one in each
    keep_time_interval. The rest is as in Orbax.

    Steps of a store: todelete_full_path is a path in the bucket, where removed steps go as
    NAME-TIME; todelete_subdir has no effect.

    Without effect, because each process reads what it needs from a local directory, and one thread
    removes steps: single_host_load_and_broadcast, num_deletion_threads.
    """

    save_interval_steps: int = 1
    max_to_keep: "int | None" = None
    keep_time_interval: "datetime.timedelta | None" = None
    keep_period: "int | None" = None
    best_fn: "Callable[[Any], float] | None" = None
    best_mode: str = "max"
    keep_checkpoints_without_metrics: bool = True
    step_prefix: "str | None" = None
    step_format_fixed_length: "int | None" = None
    step_name_format: Any = None
    create: bool = True
    cleanup_tmp_directories: bool = False
    save_on_steps: "Container[int] | None" = None
    single_host_load_and_broadcast: bool = False
    todelete_subdir: "str | None" = None
    todelete_full_path: "str | None" = None
    enable_background_delete: bool = False
    num_deletion_threads: "int | None" = None
    read_only: bool = False
    enable_async_checkpointing: bool = True
    async_options: "options.AsyncOptions | None" = None
    multiprocessing_options: options.MultiprocessingOptions = dataclasses.field(
        default_factory=options.MultiprocessingOptions
    )
    should_save_fn: "Callable[[int, int | None], bool] | None" = None
    file_options: options.FileOptions = dataclasses.field(default_factory=options.FileOptions)
    atomicity_options: "options.AtomicityOptions | None" = None
    save_root_metadata: bool = True
    temporary_path_class: Any = None
    save_decision_policy: Any = None
    preservation_policy: Any = None
    prevent_write_metrics: bool = False
    enable_should_save_is_saving_in_progress_check: bool = True
    enable_per_process_directory_creation: bool = False
    lightweight_initialize: bool = False

    def __post_init__(self) -> None:
        if self.best_mode not in ("min", "max"):
            raise ValueError(f"best_mode must be 'min' or 'max', not {self.best_mode!r}")
        broadcasts = getattr(self.step_name_format, "single_host_load_and_broadcast", False)
        if self.step_name_format is not None and self.single_host_load_and_broadcast != bool(
            broadcasts
        ):
            raise ValueError(
                "step_name_format and the options differ in single_host_load_and_broadcast"
            )
        if self.preservation_policy is None and (self.max_to_keep or 0) < 0:
            raise ValueError("max_to_keep must be None or not negative")
        if self.read_only:
            self._ignore_saves()
        if self.todelete_subdir is not None and self.todelete_full_path is not None:
            raise ValueError("todelete_subdir and todelete_full_path exclude each other")
        if self.enable_per_process_directory_creation:
            raise NotImplementedError(
                "CheckpointManagerOptions.enable_per_process_directory_creation: process 0 makes "
                "the directories"
            )
        self.atomicity()  # raises for a class that cairn.orbax does not have
        steps: Any = self.save_on_steps
        self.save_on_steps = frozenset(steps or ())

    def _ignore_saves(self) -> None:
        """Takes back what a read-only manager ignores, and warns of what has been given."""
        for name, neutral in _IGNORED_IF_READ_ONLY.items():
            if getattr(self, name) != neutral:
                _log.warning(
                    "CheckpointManagerOptions.read_only=True, setting %s=%s.", name, neutral
                )
            setattr(self, name, neutral)

    def atomicity(self) -> Atomicity:
        """How a step becomes complete, and which ones are."""
        return Atomicity(self.atomicity_options, self.temporary_path_class)

    def saves(self) -> Any:
        """The policy that decides which steps are saved."""
        if self.save_decision_policy is not None:
            return self.save_decision_policy
        preempted = saving.PreemptionCheckpointingPolicy()
        if self.should_save_fn is not None:
            return saving.AnySavePolicy([saving.ShouldSaveFnPolicy(self.should_save_fn), preempted])
        policies: list[Any] = [preempted, saving.InitialSavePolicy()]
        if self.save_interval_steps:
            policies.append(saving.FixedIntervalPolicy(self.save_interval_steps))
        if self.save_on_steps is not None:
            policies.append(saving.SpecificStepsPolicy(self.save_on_steps))
        return saving.AnySavePolicy(policies)

    def keeps(self) -> Any:
        """The policy that decides which steps are kept."""
        if self.preservation_policy is not None:
            if self.keep_time_interval or self.max_to_keep or self.keep_period:
                raise ValueError("preservation_policy excludes max_to_keep and keep_...")
            return self.preservation_policy
        policies: list[Any] = []
        if self.keep_period is not None:
            policies.append(keeping.EveryNSteps(self.keep_period))
        if self.keep_time_interval is not None:
            seconds = int(self.keep_time_interval.total_seconds())
            policies.append(keeping.EveryNSeconds(interval_secs=seconds))
        if self.best_fn is None:
            policies.append(keeping.LatestN(self.max_to_keep))
        else:
            policies.append(
                keeping.BestN(
                    get_metric_fn=self.best_fn,
                    reverse=self.best_mode == "min",
                    n=self.max_to_keep,
                    keep_checkpoints_without_metrics=self.keep_checkpoints_without_metrics,
                )
            )
        return keeping.AnyPreservationPolicy(policies)
