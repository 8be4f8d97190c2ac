"""training.Checkpointer: the checkpoints of a training run."""

import dataclasses
from collections.abc import Callable
from typing import Any, NoReturn

from cairn.orbax._impl.base.loggers import AbstractLogger, StandardLogger
from cairn.orbax._impl.base.step_statistics import RestoreStepStatistics, timed
from cairn.orbax._impl.paths.permissions import make, mode_of
from cairn.orbax._impl.steps import preservation_policy, save_decision_policy
from cairn.orbax._impl.steps.deletion import remove_unfinished, trash_folder
from cairn.orbax._impl.steps.manager_options import CheckpointManagerOptions
from cairn.orbax._impl.steps.root_metadata import RootMetadataFile
from cairn.orbax._impl.v1 import loading
from cairn.orbax._impl.v1.checks import check_processes
from cairn.orbax._impl.v1.context import Context, get_context
from cairn.orbax._impl.v1.given_paths import given_path
from cairn.orbax._impl.v1.handlers.leaf_types import check_target
from cairn.orbax._impl.v1.names import STATE
from cairn.orbax._impl.v1.steps import step_names
from cairn.orbax._impl.v1.steps.older_names import OlderNames
from cairn.orbax._impl.v1.steps.step_list import StepList
from cairn.orbax._impl.v1.steps.step_saves import StepSaves, step_number
from cairn.orbax._impl.v1.steps.step_types import (
    CheckpointMetadata,
    RootMetadata,
    StepNotFoundError,
)


def _default_saves() -> Any:
    return save_decision_policy.AnySavePolicy(
        [
            save_decision_policy.InitialSavePolicy(),
            save_decision_policy.ContinuousCheckpointingPolicy(),
            save_decision_policy.PreemptionCheckpointingPolicy(),
        ]
    )


class Checkpointer(StepSaves, OlderNames):
    """Saves, keeps, deletes and loads the steps of a directory. Orbax continues it.

    One save goes on at a time. Its error is raised by the response of the save; else by the next
    save, load, wait() or close(). Use it in a `with` block, which waits at its end.
    """

    def __init__(
        self,
        directory: Any,
        *,
        context: "Context | None" = None,
        save_decision_policy: Any = None,
        preservation_policy: Any = None,
        step_name_format: Any = None,
        custom_metadata: Any = None,
        cleanup_tmp_directories: bool = False,
        lightweight_initialize: bool = False,
        logger: "AbstractLogger | None" = None,
    ) -> None:
        """Opens or makes the directory.

        Args:
          directory: of the steps.
          context: options of all calls, unless a Context is active.
          save_decision_policy: which steps are saved; None: all, if no save goes on.
          preservation_policy: which steps are kept; None: all.
          step_name_format: their names; None: the number.
          custom_metadata: a dict for JSON, stored once for all steps.
          cleanup_tmp_directories: remove what interrupted saves have left.
          lightweight_initialize: do not read times and metrics of the steps.
          logger: an AbstractLogger of cairn.orbax.logging, which receives the statistics of each
            save and load; None: a StandardLogger.
        """
        own = Context(context or get_context())
        check_processes()
        path = given_path(own, directory)
        make(path, mode_of(own.file))
        if cleanup_tmp_directories:
            remove_unfinished(path)
        steps = StepList(
            path,
            step_name_format or step_names.standard_name_format(),
            save_decision_policy or _default_saves(),
            preservation_policy or _keep_all(),
            lightweight_initialize,
            trash_folder(path, own.deletion.gcs_deletion_options.todelete_full_path),
        )
        super().__init__(own, path, steps, logger or StandardLogger())
        self._root = RootMetadataFile(path, CheckpointManagerOptions(), custom_metadata)

    # ---- which steps there are ----

    @property
    def directory(self) -> Any:
        """The directory of the steps."""
        return self._directory

    @property
    def checkpoints(self) -> "list[CheckpointMetadata[None]]":
        """The steps, smallest first, also one that is being saved. Nothing is read."""
        return self._steps.all()

    @property
    def latest(self) -> "CheckpointMetadata[None] | None":
        """The step with the largest number, or None."""
        found = self.checkpoints
        return found[-1] if found else None

    def reload(self) -> None:
        """Lists the directory again."""
        self._wait_for_deletion()
        self._steps.reload()

    def root_metadata(self) -> RootMetadata:
        """What is stored for all steps."""
        stored = self._root.read()
        return RootMetadata(directory=self.directory, custom_metadata=stored.custom_metadata)

    def _find(self, step: Any) -> CheckpointMetadata[None]:
        """A step (None: the latest). Raises StepNotFoundError."""
        self.wait()
        found = self.checkpoints
        if step is None:
            if not found:
                raise StepNotFoundError(f"{self.directory}: there are no steps")
            return found[-1]
        number = step_number(step)
        for one in found:
            if one.step == number:
                return one
        raise StepNotFoundError(
            f"{self.directory}: there is no step {number}; there are {[one.step for one in found]}"
        )

    # ---- loads ----

    def load(
        self, step: Any = None, abstract_state: Any = None, *, checkpointable_name: str = STATE
    ) -> Any:
        """Loads the tree of a step (None: the latest), as load() of the module.

        Raises StepNotFoundError; KeyError for another name; NoEntryError, a KeyError, if the tree
        cannot be loaded: __cause__ says why.
        """
        check_target(abstract_state)
        found = self.load_checkpointables(step, {checkpointable_name: abstract_state})
        return found[checkpointable_name]

    def load_checkpointables(
        self, step: Any = None, abstract_checkpointables: Any = None
    ) -> "dict[str, Any]":
        """Loads the parts of a step, as load_checkpointables() of the module."""
        statistics = RestoreStepStatistics(directory=str(self._directory))
        with timed(statistics, "checkpoint_manager"):
            statistics.step = self._find(step).step
            path = self._steps.existing_path(statistics.step)
            with timed(statistics, "checkpointer"), get_context(self._context):
                loaded = loading.load_checkpointables(path, abstract_checkpointables)
        self._logger.log_entry(dataclasses.asdict(statistics))
        return loaded

    def load_async(self, *args: Any, **kwargs: Any) -> "NoReturn":
        """Raises NotImplementedError, as in Orbax."""
        raise NotImplementedError("load_async is not available: use load")

    def load_checkpointables_async(self, *args: Any, **kwargs: Any) -> "NoReturn":
        """Raises NotImplementedError, as in Orbax."""
        raise NotImplementedError(
            "load_checkpointables_async is not available: use load_checkpointables"
        )

    def metadata(self, step: Any = None) -> CheckpointMetadata[Any]:
        """The metadata of a step (None: the latest), with that of its tree."""
        return self._described(step, loading.metadata)

    def checkpointables_metadata(self, step: Any = None) -> CheckpointMetadata[Any]:
        """The metadata of a step, with a dict of that of its parts."""
        return self._described(step, loading.checkpointables_metadata)

    def _described(self, step: Any, read: "Callable[[Any], Any]") -> CheckpointMetadata[Any]:
        found = self._find(step)
        with get_context(self._context):
            stored = read(self._steps.existing_path(found.step))
        return CheckpointMetadata(
            found.step,
            stored.path,
            metadata=stored.metadata,
            init_timestamp_nsecs=stored.init_timestamp_nsecs,
            commit_timestamp_nsecs=stored.commit_timestamp_nsecs,
            custom_metadata=stored.custom_metadata,
            metrics=found.metrics,
        )


def _keep_all() -> Any:
    return preservation_policy.PreserveAll()
