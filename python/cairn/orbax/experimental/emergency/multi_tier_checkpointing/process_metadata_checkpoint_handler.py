"""The item of a checkpoint that says which process has which devices."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.handlers.process_metadata_handler import (
    ProcessMetadataCheckpointHandler,
    ProcessMetadataRestoreArgs,
    ProcessMetadataSaveArgs,
)

__getattr__ = _hints(__name__)

__all__ = [
    "ProcessMetadataCheckpointHandler",
    "ProcessMetadataRestoreArgs",
    "ProcessMetadataSaveArgs",
]
