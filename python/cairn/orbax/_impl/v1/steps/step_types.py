"""What a training.Checkpointer knows of its steps, and its errors."""

import dataclasses
import datetime
import pprint
from typing import Any

from cairn.orbax._impl.v1 import metadata_types
from cairn.orbax._impl.v1.metadata_types import Found


class CheckpointMetadata(metadata_types.CheckpointMetadata[Found]):
    """What is known of a step without its values."""

    def __init__(
        self,
        step: int,
        path: Any,
        *,
        metadata: Found,
        init_timestamp_nsecs: "int | None" = None,
        commit_timestamp_nsecs: "int | None" = None,
        custom_metadata: Any = None,
        metrics: Any = None,
    ) -> None:
        super().__init__(
            path,
            metadata=metadata,
            init_timestamp_nsecs=init_timestamp_nsecs,
            commit_timestamp_nsecs=commit_timestamp_nsecs,
            custom_metadata=custom_metadata,
        )
        self._step = step
        self._metrics = metrics

    @property
    def step(self) -> int:
        """The number of the step."""
        return self._step

    @property
    def metrics(self) -> Any:
        """The metrics; None if it has none."""
        return self._metrics

    @property
    def time(self) -> datetime.datetime:
        """When the save was complete. Raises ValueError if that is not known."""
        found = self.commit_timestamp
        if found is None:
            raise ValueError(f"{self.path}: the time of the save is not stored")
        return found

    def _described(self) -> "dict[str, str]":
        return {"step": str(self.step), **super()._described(), "metrics": str(self.metrics)}


@dataclasses.dataclass(frozen=True, kw_only=True, repr=False)
class RootMetadata:
    """What is stored for all steps."""

    directory: Any
    custom_metadata: Any = None

    def __repr__(self) -> str:
        described = {
            "directory": str(self.directory),
            "custom_metadata": str(self.custom_metadata),
        }
        return f"RootMetadata({pprint.pformat(described)})"


class StepAlreadyExistsError(FileExistsError):
    """The step is there already."""


class StepNotFoundError(FileNotFoundError):
    """There is no such step."""
