"""The time limit of a save in the background, which the native part keeps."""

import contextlib
import contextvars
import time
from collections.abc import Iterator
from typing import Any

_limit: "contextvars.ContextVar[float | None]" = contextvars.ContextVar("limit", default=None)


def current() -> "float | None":
    """The seconds within which a write that begins here must end; None: no limit."""
    return _limit.get()


class TimeLimit:
    """AsyncOptions.timeout_secs of one save, from now on. None: no limit."""

    def __init__(self, target: Any, seconds: "float | None") -> None:
        self._target = target
        self._seconds = seconds
        self._began = time.monotonic()

    def check(self) -> None:
        """Raises TimeoutError when the time is over."""
        if self._is_over():
            raise self._error()

    @contextlib.contextmanager
    def around(self) -> "Iterator[None]":
        """Ends the writes that begin here in time. The TimeoutError names the save."""
        positive = self._seconds is not None and self._seconds > 0
        token = _limit.set(self._seconds if positive else None)
        try:
            yield
        except TimeoutError as error:
            if self._is_over():
                raise self._error() from error
            raise
        finally:
            _limit.reset(token)

    def _is_over(self) -> bool:
        return self._seconds is not None and time.monotonic() - self._began > self._seconds

    def _error(self) -> TimeoutError:
        return TimeoutError(
            f"{self._target}: the save took longer than AsyncOptions.timeout_secs, "
            f"{self._seconds} s"
        )
