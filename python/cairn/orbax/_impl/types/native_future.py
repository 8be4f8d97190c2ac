"""Writes of the native part that go on in the background."""

from concurrent.futures import CancelledError
from typing import Any

from cairn.orbax._impl.base import monitoring


class NativeFuture:
    """Ends when the native part has written everything."""

    def __init__(
        self, pending: Any, handler: Any, record: "monitoring.TreeSaveRecord | None" = None
    ) -> None:
        self._record = record
        self._pending = pending
        self._handler = handler  # must live as long as its writes
        self._is_cancelled = False

    def cancel(self) -> None:
        """Asks the write to stop soon. result() then raises CancelledError."""
        self._is_cancelled = True
        self._pending.cancel()

    def result(self, timeout: "float | None" = None) -> None:
        """Waits until everything is written. The write itself ends at its time limit."""
        try:
            events = self._pending.wait()
        # First: it is a RuntimeError, too.
        except NotImplementedError as error:  # an array of a type that no format of Orbax has
            raise ValueError(str(error)) from error
        except RuntimeError as error:
            if self._is_cancelled:
                raise CancelledError from error
            raise
        record, self._record = self._record, None
        if record is not None:
            record.written(events)
