"""Metadata of steps, runs and leaves."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.leaves.shardings import (
    NamedShardingMetadata,
    ShardingMetadata,
    SingleDeviceShardingMetadata,
)
from cairn.orbax._impl.stored.step_metadata import RootMetadata, StepMetadata
from cairn.orbax._impl.stored.step_metadata import read_step_metadata as get_step_metadata
from cairn.orbax.metadata import tree, value
from cairn.orbax.metadata.store import MetadataStore, metadata_store
from cairn.orbax.metadata.tree import TreeMetadata
from cairn.orbax.metadata.value import (
    ArrayMetadata,
    Metadata,
    ScalarMetadata,
    StorageMetadata,
    StringMetadata,
)

__getattr__ = _hints(__name__)


__all__ = [
    "ArrayMetadata",
    "Metadata",
    "MetadataStore",
    "NamedShardingMetadata",
    "RootMetadata",
    "ScalarMetadata",
    "ShardingMetadata",
    "SingleDeviceShardingMetadata",
    "StepMetadata",
    "StorageMetadata",
    "StringMetadata",
    "TreeMetadata",
    "get_step_metadata",
    "metadata_store",
    "tree",
    "value",
]
