"""Handlers of the msgpack file that checkpoints of old versions have for a whole tree."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.handlers.aggregate import AggregateHandler, MsgpackHandler

__getattr__ = _hints(__name__)

__all__ = [
    "AggregateHandler",
    "MsgpackHandler",
]
