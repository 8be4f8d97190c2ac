"""CheckpointMetadata."""

import datetime
import pprint
from typing import Any, Generic, TypeVar

Found = TypeVar("Found")


def _time(nanoseconds: "int | None") -> "datetime.datetime | None":
    if nanoseconds is None:
        return None
    return datetime.datetime.fromtimestamp(nanoseconds / 1e9, tz=datetime.timezone.utc)


class CheckpointMetadata(Generic[Found]):
    """The metadata of a checkpoint, without its values. The times are those of its save."""

    def __init__(
        self,
        path: Any,
        *,
        metadata: Found,
        init_timestamp_nsecs: "int | None" = None,
        commit_timestamp_nsecs: "int | None" = None,
        custom_metadata: Any = None,
    ) -> None:
        self._path = path
        self._metadata = metadata
        self._begin = init_timestamp_nsecs
        self._end = commit_timestamp_nsecs
        self._custom = custom_metadata

    @property
    def path(self) -> Any:
        """The path of the checkpoint."""
        return self._path

    @property
    def metadata(self) -> Found:
        """The tree with metadata in place of its values; or a dict of checkpointables' metadata."""
        return self._metadata

    @property
    def init_timestamp_nsecs(self) -> "int | None":
        """When the save began, in nanoseconds since 1970."""
        return self._begin

    @property
    def commit_timestamp_nsecs(self) -> "int | None":
        """When the save was complete, in nanoseconds since 1970."""
        return self._end

    @property
    def init_timestamp(self) -> "datetime.datetime | None":
        """When the save began."""
        return _time(self._begin)

    @property
    def commit_timestamp(self) -> "datetime.datetime | None":
        """When the save was complete."""
        return _time(self._end)

    @property
    def custom_metadata(self) -> Any:
        """The custom metadata of the checkpoint."""
        return self._custom

    def _described(self) -> "dict[str, str]":
        return {
            "metadata": str(self.metadata),
            "init_timestamp_nsecs": str(self.init_timestamp_nsecs),
            "commit_timestamp_nsecs": str(self.commit_timestamp_nsecs),
            "custom_metadata": str(self.custom_metadata),
        }

    def __repr__(self) -> str:
        return f"CheckpointMetadata({pprint.pformat(self._described())})"
