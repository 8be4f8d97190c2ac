"""Metadata of trees."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.leaves.tree_metadata import TreeMetadata
from cairn.orbax._impl.types.value_metadata_entry import ValueMetadataEntry

__getattr__ = _hints(__name__)

__all__ = ["TreeMetadata", "ValueMetadataEntry"]
