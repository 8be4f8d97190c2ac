"""Whether the caller of a save waits until it has ended, so that nothing has to be copied."""

import contextlib
import contextvars
from collections.abc import Iterator

_waits = contextvars.ContextVar("cairn_orbax_waits", default=False)


@contextlib.contextmanager
def for_the_save() -> "Iterator[None]":
    """The saves that begin in the block end before it does."""
    token = _waits.set(True)
    try:
        yield
    finally:
        _waits.reset(token)


def does_caller_wait() -> bool:
    """Whether the save that begins now may write arrays from the caller's memory."""
    return _waits.get()
