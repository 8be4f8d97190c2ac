"""The steps of a directory: which there are, which are saved and which are kept."""

import datetime
from typing import Any

from cairn.orbax._impl.base.processes import reached_preemption
from cairn.orbax._impl.paths.object_stores import listed_once
from cairn.orbax._impl.paths.parallel import ask_all
from cairn.orbax._impl.paths.text_files import load_json
from cairn.orbax._impl.steps.deletion import move_to_trash, remove_steps, time_suffix
from cairn.orbax._impl.steps.infos import CheckpointInfo, warn_if_incomplete
from cairn.orbax._impl.steps.preservation_policy import PreservationContext
from cairn.orbax._impl.steps.save_decision_policy import DecisionContext
from cairn.orbax._impl.steps.step_names import modified_at
from cairn.orbax._impl.v1.names import METRICS
from cairn.orbax._impl.v1.steps.step_types import CheckpointMetadata


def _now() -> datetime.datetime:
    return datetime.datetime.now(tz=datetime.timezone.utc)


class StepList:
    """What is known of the steps. It is read once, and again by reload()."""

    def __init__(
        self,
        directory: Any,
        names: Any,
        saves: Any,
        keeps: Any,
        lightweight: bool,
        trash: Any = None,
    ) -> None:
        """trash: the folder of a store where removed steps go; None: they are removed."""
        self._directory = directory
        self._names = names
        self._saves = saves
        self._keeps = keeps
        self._trash = trash
        self._infos: list[CheckpointInfo] = []
        self._due: list[int] = []  # to be removed when a save completes
        self.reload(lightweight)

    def reload(self, lightweight: bool = False) -> None:
        """Reads which steps there are; lightweight: without times and metrics."""

        def describe(found: Any) -> CheckpointInfo:
            if lightweight:
                return CheckpointInfo(found.step, datetime.datetime.min)
            return CheckpointInfo(found.step, _time(found), _metrics(found.path))

        with listed_once(self._directory):
            infos = ask_all(self._directory, describe, self._names.find_all(self._directory))
        self._infos = sorted(infos, key=lambda info: info.step)
        self._due = []  # listed again, if they are there
        if self._infos:
            warn_if_incomplete(self.existing_path(self._infos[-1].step))

    def path(self, step: int) -> Any:
        """The path of a step."""
        return self._directory / self._names.build_name(step)

    def existing_path(self, step: int) -> Any:
        """The path of a step that is there, by whatever format it is named."""
        path = self.path(step)
        return path if path.exists() else self._names.find_step(self._directory, step).path

    def all(self) -> "list[CheckpointMetadata[None]]":
        """The steps, smallest first."""
        return [
            CheckpointMetadata(
                info.step,
                self.path(info.step),
                metadata=None,
                commit_timestamp_nsecs=_nanoseconds(info.time),
                metrics=info.metrics,
            )
            for info in sorted(self._infos, key=lambda info: info.step)
        ]

    def should_save(self, step: int, is_saving: bool, processes: Any, replace: bool) -> bool:
        """Whether the policy wants a step, which must be later than the last one.

        replace: the step with this number does not count, as it will be replaced.
        """
        infos = [info for info in self._infos if not (replace and info.step == step)]
        if infos and infos[-1].step >= step:
            return False
        context = DecisionContext(
            is_saving_in_progress=is_saving,
            reached_preemption=reached_preemption(step),
            multiprocessing_options=processes,
        )
        info = CheckpointInfo(step, _now())
        return bool(self._saves.should_save(info, infos, context=context))

    def add(self, step: int, metrics: Any) -> "list[int]":
        """Adds a step that is being saved. Returns the steps that are not kept after that.

        They include those of earlier saves that have failed.
        """
        self._infos = [*self._infos, CheckpointInfo(step, _now(), metrics)]
        kept = self._keeps.should_preserve(list(self._infos), context=PreservationContext())
        old = [info.step for info, keep in zip(self._infos, kept, strict=True) if not keep]
        self.drop(*old)
        due = [one for one in self._due if one != step and self._is_there(one)]
        self._due = [*due, *old]
        return self._due

    def _is_there(self, step: int) -> bool:
        try:
            return bool(self.existing_path(step).exists())
        except ValueError:  # by the format of the names
            return False

    def drop(self, *steps: int) -> None:
        """Forgets steps."""
        self._infos = [info for info in self._infos if info.step not in steps]

    def remove(self, steps: "list[int]") -> None:
        """Deletes the directories of the steps that add() has returned."""
        self._due = []
        move = None if self._trash is None else self._move
        remove_steps([self.existing_path(step) for step in steps], move)

    def _move(self, path: Any) -> None:
        move_to_trash(path, self._trash, time_suffix())


def _time(found: Any) -> datetime.datetime:
    if found.commit_timestamp is not None:
        return found.commit_timestamp  # type: ignore[no-any-return]
    seconds = modified_at(found.path)
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)


def _nanoseconds(time: datetime.datetime) -> "int | None":
    if time == datetime.datetime.min:  # of a lightweight start
        return None
    return int(time.timestamp() * 1e9)


def _metrics(path: Any) -> Any:
    file = path / METRICS / METRICS
    return load_json(file) if file.exists() else None
