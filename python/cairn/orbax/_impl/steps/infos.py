"""What a manager knows of a step."""

import dataclasses
import datetime
import logging
import numbers
import operator
import os
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


@dataclasses.dataclass
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
