"""Limits of the bytes that the coroutines of a save or restore hold at once."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Protocol


class ByteLimiter(Protocol):
    """The type of ParamInfo.byte_limiter."""

    async def wait_for_bytes(self, requested_bytes: int) -> None:
        """Waits until the bytes are free, and takes them."""

    async def release_bytes(self, requested_bytes: int) -> None:
        """Gives them back."""


class LimitInFlightBytes(ByteLimiter):
    """A limit of `num_bytes`. As in Orbax, a request must be smaller than what is free.

    For the coroutines of one event loop. Raises ValueError for a limit that is not positive.
    """

    def __init__(self, num_bytes: int) -> None:
        if num_bytes <= 0:
            raise ValueError(f"Must provide positive `num_bytes`. Found: {num_bytes}")
        self._max_bytes = num_bytes
        self._available_bytes = num_bytes
        self._freed = asyncio.Condition()

    @property
    def max_bytes(self) -> int:
        """The limit."""
        return self._max_bytes

    async def wait_for_bytes(self, requested_bytes: int) -> None:
        """Waits until the bytes are free, and takes them.

        Raises ValueError for a request of the limit or more, which never would be.
        """
        if requested_bytes >= self._max_bytes:
            raise ValueError(
                "Requested more bytes than we reserved space for: "
                f"{requested_bytes} > {self._max_bytes}"
            )
        async with self._freed:
            await self._freed.wait_for(lambda: self._available_bytes > requested_bytes)
            self._available_bytes -= requested_bytes

    async def release_bytes(self, requested_bytes: int) -> None:
        """Gives bytes back. Raises AssertionError for more than were taken."""
        async with self._freed:
            if self._available_bytes + requested_bytes > self._max_bytes:
                raise AssertionError(f"{requested_bytes} bytes are more than were reserved")
            self._available_bytes += requested_bytes
            self._freed.notify_all()


class UnlimitedInFlightBytes(ByteLimiter):
    """No limit."""

    async def wait_for_bytes(self, requested_bytes: int) -> None:
        """Returns at once."""

    async def release_bytes(self, requested_bytes: int) -> None:
        """Does nothing."""


def get_byte_limiter(concurrent_bytes: "int | None" = None) -> ByteLimiter:
    """A limiter; None: no limit. Raises ValueError for a limit that is not positive."""
    if concurrent_bytes is None:
        return UnlimitedInFlightBytes()
    if concurrent_bytes <= 0:
        raise ValueError(f"Must provide positive `concurrent_bytes`. Found: {concurrent_bytes}")
    return LimitInFlightBytes(concurrent_bytes)


@contextlib.asynccontextmanager
async def reserved_bytes(byte_limiter: ByteLimiter, nbytes: int) -> "AsyncIterator[None]":
    """Holds bytes for the duration of the context."""
    await byte_limiter.wait_for_bytes(nbytes)
    try:
        yield
    finally:
        await byte_limiter.release_bytes(nbytes)
