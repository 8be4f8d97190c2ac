"""What a manager knows of a step."""

import dataclasses
import datetime
import logging
import numbers
import operator
import os
from collections.abc import Callable, Iterator
from typing import Any

from cairn import _cairn

_log = logging.getLogger("cairn.orbax")


def warn_if_incomplete(latest: Any) -> None:
    """Logs what the latest step lacks. Orbax counts every folder with the name of a step, and so
    do the managers."""
    try:
        reason = _cairn.incomplete_reason(os.fspath(latest))
    except (OSError, ValueError):
        return  # the restore says why
    if reason:
        _log.warning("the latest step, %s, is not complete: %s", latest, reason)


@dataclasses.dataclass(eq=False)
class CheckpointInfo:
    """A step that the manager knows."""

    step: int
    time: datetime.datetime
    metrics: Any = None

    def __post_init__(self) -> None:
        if not isinstance(self.step, numbers.Integral):
            self.step = operator.index(self.step)  # an array of JAX

    def __str__(self) -> str:
        return f"Checkpoint[step={self.step} | time={self.time}]"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CheckpointInfo) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> "tuple[int, datetime.datetime]":
        return self.step, self.time


class CheckpointInfos:
    """The steps that a manager knows. A change replaces the list, so that readers keep theirs."""

    def __init__(self, infos: "list[CheckpointInfo] | None" = None) -> None:
        self._infos = list(infos or [])

    def set(self, checkpoint_infos: "list[CheckpointInfo]") -> "CheckpointInfos":
        """Replaces all."""
        self._infos = list(checkpoint_infos)
        return self

    def __getitem__(self, index: Any) -> Any:
        return self._infos[index]

    def __iter__(self) -> "Iterator[CheckpointInfo]":
        return iter(self._infos)

    def __len__(self) -> int:
        return len(self._infos)

    def latest(self) -> "CheckpointInfo | None":
        """The last one, or None."""
        infos = self._infos
        return infos[-1] if infos else None

    def empty(self) -> bool:
        """Whether there is none."""
        return not self._infos

    def size(self) -> int:
        """How many there are."""
        return len(self._infos)

    def delete_if(self, select_fn: "Callable[[CheckpointInfo], bool]") -> None:
        """Forgets those that the function selects."""
        self._infos = [info for info in self._infos if not select_fn(info)]

    def append(self, checkpoint_info: CheckpointInfo) -> None:
        """Adds one at the end."""
        self._infos = [*self._infos, checkpoint_info]

    def __repr__(self) -> str:
        steps = [info.step for info in self]
        return f"CheckpointInfos(size={len(steps)}, steps={steps})"
