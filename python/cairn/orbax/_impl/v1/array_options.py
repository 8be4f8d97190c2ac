"""ArrayOptions: how arrays are stored, and how they are read."""

import dataclasses
from typing import Any, Protocol

from cairn.orbax._impl.types.leaf_options import ArrayMetadataStore
from cairn.orbax._impl.v1.frozen import Options


@dataclasses.dataclass(kw_only=True)
class _StorageOptions(Options):
    """How an array is stored: its dtype, the most bytes of a chunk, the dimensions split first."""

    dtype: Any = None
    chunk_byte_size: "int | None" = None
    shard_axes: "tuple[int, ...] | None" = None


class _ScopedStorageOptionsCreator(Protocol):
    """A function that chooses the StorageOptions of a leaf; None: those of all leaves."""

    def __call__(self, key: Any, value: Any) -> "_StorageOptions | None":
        """The options of the leaf at the key path."""


@dataclasses.dataclass(kw_only=True)
class _Saving(Options):
    """How arrays are stored.

    enable_write_sharding_file=False and array_metadata_store=None leave out the files _sharding and
    array_metadatas. The options about replicas are those of type_handlers.ArrayHandler.
    """

    StorageOptions = _StorageOptions
    ScopedStorageOptionsCreator = _ScopedStorageOptionsCreator

    storage_options: _StorageOptions = dataclasses.field(default_factory=_StorageOptions)
    use_ocdbt: bool = True
    use_zarr3: bool = True
    use_compression: bool = True
    ocdbt_target_data_file_size: "int | None" = None
    enable_pinned_host_transfer: "bool | None" = None
    enable_post_merge_validation: bool = True
    use_replica_parallel: "bool | None" = None
    min_slice_bytes_for_replica_parallel: "int | None" = None
    max_replicas_for_replica_parallel: "int | None" = None
    enable_replica_parallel_separate_folder: bool = False
    enable_write_sharding_file: bool = True
    array_metadata_store: Any = dataclasses.field(default_factory=ArrayMetadataStore)
    scoped_storage_options_creator: "_ScopedStorageOptionsCreator | None" = None


@dataclasses.dataclass(kw_only=True)
class _LoadAndBroadcastOptions(Options):
    """Which replica reads, for the others. In one process each box is read once in any case."""

    replica_axis_index: "int | None" = 0
    primary_replica_id: "int | None" = 0
    broadcast_memory_limit_bytes: "int | None" = None
    broadcast_memory_scaling_factor: "float | None" = 0.75


@dataclasses.dataclass(kw_only=True)
class _Loading(Options):
    """How arrays are read. With padding and truncation, a target may have another shape."""

    LoadAndBroadcastOptions = _LoadAndBroadcastOptions

    enable_padding_and_truncation: bool = False
    raise_array_data_missing_error: bool = True
    use_load_and_broadcast: bool = False
    load_and_broadcast_options: _LoadAndBroadcastOptions = dataclasses.field(
        default_factory=LoadAndBroadcastOptions
    )


@dataclasses.dataclass(kw_only=True)
class ArrayOptions(Options):
    """How arrays are stored and read."""

    Saving = _Saving
    Loading = _Loading

    saving: _Saving = dataclasses.field(default_factory=_Saving)
    loading: _Loading = dataclasses.field(default_factory=_Loading)


# The names by which Orbax prints them.
_StorageOptions.__qualname__ = "ArrayOptions.Saving.StorageOptions"
_Saving.__qualname__ = "ArrayOptions.Saving"
_Loading.__qualname__ = "ArrayOptions.Loading"
_LoadAndBroadcastOptions.__qualname__ = "ArrayOptions.Loading.LoadAndBroadcastOptions"
