"""Futures: what a handler has left to do after async_save() has returned."""

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError
from typing import Any, Protocol


class Future(Protocol):
    """Something that ends in the background. result() waits, and raises its error."""

    def result(self, timeout: "float | None" = None) -> Any:
        """Waits until it has ended."""

    def cancel(self) -> "bool | None":
        """Asks it to stop."""


class NoopFuture:
    """A future that has ended."""

    def result(self, timeout: "float | None" = None) -> Any:
        """Returns None at once."""
        return None

    def cancel(self) -> None:
        """Does nothing."""


class ChainedFuture:
    """Ends when all futures have ended, and then calls a function."""

    def __init__(self, futures: "Sequence[Future]", cb: "Callable[[], None]") -> None:
        self._futures = futures
        self._callback = cb

    def result(self, timeout: "float | None" = None) -> Any:
        """Waits for all of them, one after the other; TimeoutError after `timeout` seconds.

        A future that cannot be left alone, because it writes, ends first.
        """
        end = None if timeout is None else time.monotonic() + timeout
        for number, future in enumerate(self._futures):
            left = None if end is None else max(0.0, end - time.monotonic())
            future.result(timeout=left)
            if end is not None and time.monotonic() > end:
                raise TimeoutError(
                    f"{number + 1} of {len(self._futures)} futures have ended, but not in "
                    f"{timeout} seconds"
                )
        self._callback()

    def cancel(self) -> None:
        """Cancels all of them."""
        for future in self._futures:
            future.cancel()


class CommitFuture:
    """Runs a coroutine in a thread of its own."""

    def __init__(
        self,
        coro: "Coroutine[Any, Any, Any]",
        *,
        name: "str | None" = None,
        timeout_secs: "int | None" = None,
    ) -> None:
        self._timeout = timeout_secs
        self._error: BaseException | None = None
        self._value: Any = None
        self._is_cancelled = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._thread = threading.Thread(target=self._run, args=(coro,), name=name)
        self._thread.start()

    def _run(self, coro: "Coroutine[Any, Any, Any]") -> None:
        async def work() -> Any:
            self._loop, self._task = asyncio.get_running_loop(), asyncio.current_task()
            if self._is_cancelled:
                coro.close()
                raise asyncio.CancelledError
            return await coro

        try:
            self._value = asyncio.run(work())
        except BaseException as error:  # raised by result(), in the caller's thread
            self._error = error

    def cancel(self) -> None:
        """Asks the coroutine to stop where it awaits something. result() raises CancelledError."""
        self._is_cancelled = True
        loop, task = self._loop, self._task
        if loop is not None and task is not None:
            with contextlib.suppress(RuntimeError):  # it has ended
                loop.call_soon_threadsafe(task.cancel)

    def result(self, timeout: "float | None" = None) -> Any:
        """The result of the coroutine. Raises its error, TimeoutError after `timeout` seconds."""
        self._thread.join(timeout if timeout is not None else self._timeout)
        if self._is_cancelled:
            raise CancelledError
        if self._thread.is_alive():
            raise TimeoutError(f"{self._thread.name}: has not ended in time")
        if self._error is not None:
            raise self._error
        return self._value


class CommitFutureAwaitingContractedSignals(CommitFuture):
    """Runs a coroutine in a thread of its own.

    There is nothing to wait for before: directories exist when a handler is called.
    """

    def __init__(
        self,
        coro: "Coroutine[Any, Any, Any]",
        *,
        name: "str | None" = None,
        send_signals: Any = None,
        timeout_secs: "int | None" = None,
        operation_id: "str | None" = None,
    ) -> None:
        if send_signals:
            raise NotImplementedError(f"{name}: send_signals is not available in one process")
        super().__init__(coro, name=name, timeout_secs=timeout_secs)
