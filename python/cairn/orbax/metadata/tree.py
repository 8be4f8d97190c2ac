"""Metadata of trees."""

from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax._impl.tree_metadata import TreeMetadata

__getattr__ = _hints(
    __name__, {"ValueMetadataEntry": "metadata() of a handler has the metadata of each leaf"}
)

__all__ = ["TreeMetadata"]
