"""Reports of a save's progress, leaf by leaf."""

import enum
from typing import Any, Protocol


class IoDirection(enum.Enum):
    """Whether bytes are written or read."""

    WRITE = "write"
    READ = "read"


class TransferPriority(enum.Enum):
    """When an array is copied from its device."""

    SYNCHRONOUS = 0  # before a save returns
    ASYNCHRONOUS_PRIORITIZED = 1  # in the background, first
    ASYNCHRONOUS_DEPRIORITIZED = 2  # in the background, after those
    UNKNOWN = 3


class SerializationStatusCallback(Protocol):
    """The type of ArrayHandler(callback=...) in Orbax. cairn.orbax accepts the default only."""

    def key_priority(self, keypath: Any) -> TransferPriority:
        """When a leaf is copied."""

    def on_transfer_start(self, keypath: Any) -> None:
        """Never called, as in Orbax."""

    def on_transfer_end(self, keypath: Any) -> None:
        """Called when a leaf is copied."""

    def on_write_start(self, keypath: Any) -> None:
        """Never called, as in Orbax."""

    def on_write_end(self, keypath: Any) -> None:
        """Called when a leaf is written."""


class DefaultSerializationStatusCallback(SerializationStatusCallback):
    """All leaves are copied before a save returns, and nobody is told."""

    def key_priority(self, _: Any) -> TransferPriority:
        """When a leaf is copied."""
        return TransferPriority.SYNCHRONOUS

    def on_transfer_start(self, _: Any) -> None:
        """Does nothing."""

    def on_transfer_end(self, _: Any) -> None:
        """Does nothing."""

    def on_write_start(self, _: Any) -> None:
        """Does nothing."""

    def on_write_end(self, _: Any) -> None:
        """Does nothing."""


class IsPrioritizedKeyFn(Protocol):
    """The type of is_prioritized_key_fn: returns True for a leaf that is copied first."""

    def __call__(self, key: Any) -> bool: ...
