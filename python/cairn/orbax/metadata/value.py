"""Metadata of leaves."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.leaves.tree_metadata import (
    ArrayMetadata,
    Metadata,
    ScalarMetadata,
    StorageMetadata,
    StringMetadata,
)

__getattr__ = _hints(__name__)

__all__ = ["ArrayMetadata", "Metadata", "ScalarMetadata", "StorageMetadata", "StringMetadata"]
