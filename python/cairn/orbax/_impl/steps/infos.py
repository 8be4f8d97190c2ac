"""What a manager knows of a step."""

import dataclasses
import datetime
import numbers
import operator
from typing import Any


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
