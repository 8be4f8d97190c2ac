"""Errors. training.errors has the errors of training.Checkpointer."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.v1.errors import (
    DeletionInProgressError,
    DeletionRecoveryError,
    InvalidLayoutError,
)

__getattr__ = _hints(__name__)

__all__ = [
    "DeletionInProgressError",
    "DeletionRecoveryError",
    "InvalidLayoutError",
]
