"""What a manager knows of a step."""

import dataclasses
import datetime
from typing import Any


@dataclasses.dataclass
class CheckpointInfo:
    """A step that the manager knows."""

    step: int
    time: datetime.datetime
    metrics: Any = None

    def __str__(self) -> str:
        return f"Checkpoint[step={self.step} | time={self.time}]"
