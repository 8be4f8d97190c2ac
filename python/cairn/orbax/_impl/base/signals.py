"""Signals between checkpointers and handlers, which programs name in the futures of handlers."""

import enum
import itertools


class HandlerAwaitableSignal(enum.Enum):
    """Signals that a handler may wait for. They never wait: directories exist before."""

    AWAITABLE_SIGNALS_CONTRACT = "awaitable_signals_contract"
    STEP_DIRECTORY_CREATION = "step_directory_creation"
    ITEM_DIRECTORY_CREATION = "item_directory_creation"


class OperationIdGenerator:
    """Numbers of operations, for code that makes names of them."""

    _numbers = itertools.count()
    _current = next(_numbers)

    @classmethod
    def next_operation_id(cls) -> int:
        """The next number."""
        cls._current = next(cls._numbers)
        return cls._current

    @classmethod
    def get_current_operation_id(cls) -> str:
        """The last number that next_operation_id() has returned."""
        return str(cls._current)
