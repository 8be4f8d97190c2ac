"""Asks a store about many things at once: each question waits for its answer most of the time."""

import concurrent.futures
import contextvars
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from cairn.orbax._impl.paths.store_path import is_store_url

_MOST_AT_ONCE = 16  # as the native part asks about steps

_Thing = TypeVar("_Thing")
_Answer = TypeVar("_Answer")


def ask_all(
    where: Any, ask: "Callable[[_Thing], _Answer]", things: "Iterable[_Thing]"
) -> "list[_Answer]":
    """What a function answers for each of the things, in threads if `where` is in a store.

    Raises the error of the first thing that has one.
    """
    asked = list(things)
    if len(asked) < 2 or not is_store_url(where):
        return [ask(thing) for thing in asked]
    with concurrent.futures.ThreadPoolExecutor(
        min(len(asked), _MOST_AT_ONCE), "cairn-orbax-requests"
    ) as executor:
        contexts = [contextvars.copy_context() for _ in asked]  # with the listings of the caller
        return list(executor.map(lambda context, one: context.run(ask, one), contexts, asked))
