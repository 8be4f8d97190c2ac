"""AsyncResponse: the result of work in the background."""

import concurrent.futures
import contextvars
import threading
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

_Result = TypeVar("_Result", covariant=True)


class AsyncResponse(Protocol[_Result]):
    """Something that ends in the background."""

    def result(self, timeout: "float | None" = None) -> _Result:
        """Waits for its result. Raises its error; TimeoutError after `timeout` seconds."""
        ...

    def on_complete(self, callback: "Callable[[Any], None]") -> None:
        """Calls a function with the result, if there is no error."""
        ...


class Background(AsyncResponse[Any]):
    """Runs a function in a thread of its own, with the caller's context.

    The interpreter waits for the thread before it ends.
    """

    def __init__(self, work: "Callable[[], Any]", name: str) -> None:
        self._future: concurrent.futures.Future[Any] = concurrent.futures.Future()
        context = contextvars.copy_context()
        self._thread = threading.Thread(target=context.run, args=(self._run, work), name=name)
        self._thread.start()

    def _run(self, work: "Callable[[], Any]") -> None:
        try:
            result = work()
        except BaseException as error:  # raised by result(), in the caller's thread
            self._future.set_exception(error)
        else:
            self._future.set_result(result)

    def result(self, timeout: "float | None" = None) -> Any:
        """Waits for the result of the function. Raises its error."""
        return self._future.result(timeout)

    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._future.done()

    def error(self) -> "BaseException | None":
        """Waits for the end. Returns the error."""
        return self._future.exception()

    def on_complete(self, callback: "Callable[[Any], None]") -> None:
        """Calls a function with the result, if there is no error."""

        def call(future: "concurrent.futures.Future[Any]") -> None:
            if future.exception() is None:
                callback(future.result())

        self._future.add_done_callback(call)
