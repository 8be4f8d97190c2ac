"""Joins what the handlers of one save or restore ask for, so that it becomes one native call."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any


@dataclasses.dataclass
class _Batch:
    entries: "list[Any]"
    result: "asyncio.Future[Any]"


class Batches:
    """Collects entries by directory, and runs them together.

    The handlers of a tree are started together in one event loop. Each adds its entries before the
    first one goes on.
    """

    def __init__(self, run: "Callable[[str, list[Any]], Awaitable[Any]]") -> None:
        self._run = run
        self._open: dict[tuple[int, str], _Batch] = {}

    async def add(self, directory: str, entries: "list[Any]") -> "tuple[int, Any]":
        """The place of the first entry in the batch, and the result of the whole batch."""
        loop = asyncio.get_running_loop()
        key = (id(loop), directory)
        batch = self._open.get(key)
        if batch is not None:
            first = len(batch.entries)
            batch.entries.extend(entries)
            return first, await batch.result
        batch = self._open[key] = _Batch(list(entries), loop.create_future())
        try:
            await asyncio.sleep(0)  # the others add theirs
        finally:
            del self._open[key]
        try:
            batch.result.set_result(await self._run(directory, batch.entries))
        except Exception as error:
            batch.result.set_exception(error)
        except BaseException:
            batch.result.cancel()
            raise
        return 0, await batch.result
