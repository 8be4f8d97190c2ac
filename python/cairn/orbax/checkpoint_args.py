"""Arguments of handlers, under the name of Orbax's module."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.handlers.args import (
    CheckpointArgs,
    get_registered_args_cls,
    get_registered_handler_cls,
    has_registered_args,
    register_with_handler,
)
from cairn.orbax._impl.handlers.handler import CheckpointHandler

__getattr__ = _hints(__name__)

__all__ = [
    "CheckpointArgs",
    "CheckpointHandler",
    "get_registered_args_cls",
    "get_registered_handler_cls",
    "has_registered_args",
    "register_with_handler",
]
