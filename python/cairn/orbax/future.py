"""Futures: what a handler has left to do after async_save() has returned."""

from cairn.orbax._impl.base.futures import (
    ChainedFuture,
    CommitFuture,
    CommitFutureAwaitingContractedSignals,
    Future,
    NoopFuture,
)
from cairn.orbax._impl.base.missing import hints as _hints

__getattr__ = _hints(__name__)

__all__ = [
    "ChainedFuture",
    "CommitFuture",
    "CommitFutureAwaitingContractedSignals",
    "Future",
    "NoopFuture",
]
