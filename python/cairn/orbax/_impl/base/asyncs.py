"""Runs coroutines of handlers from ordinary functions."""

import asyncio
import contextvars
import threading
from collections.abc import Coroutine
from typing import Any


def run(coroutine: "Coroutine[Any, Any, Any]") -> Any:
    """The result of a coroutine.

    A notebook's thread already runs an event loop; the coroutine then gets a thread of its own,
    with the same context variables.
    """
    if not _has_loop():
        return asyncio.run(coroutine)
    context = contextvars.copy_context()
    result: list[Any] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            result.append(context.run(asyncio.run, coroutine))
        except BaseException as error:  # raised below, in the caller's thread
            errors.append(error)

    thread = threading.Thread(
        target=contextvars.copy_context().run, args=(work,), name="cairn-orbax-loop"
    )
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return result[0]


def _has_loop() -> bool:
    """Whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
