"""The record of how a save stores an array."""

import dataclasses
from typing import Any

RANDOM_KEY_IMPL = "random_key_impl"  # a key of ext_metadata

ExtMetadata = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class ArrayMetadata:
    """How an array is stored.

    write_shape: of the pieces that are written whole. ext_metadata: the implementation of a random
    key. compression_algorithm: "none" or "zstd".
    """

    param_name: str
    shape: "tuple[int, ...]"
    dtype: Any
    write_shape: "tuple[int, ...]"
    chunk_shape: "tuple[int, ...]"
    use_ocdbt: bool
    use_zarr3: bool
    ext_metadata: "ExtMetadata | None" = None
    compression_algorithm: str = "none"
    compression_level: "int | None" = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class SerializedArrayMetadata:
    """The part of it that a file array_metadatas/process_N has."""

    param_name: str
    write_shape: "tuple[int, ...]"
    chunk_shape: "tuple[int, ...]"
    ext_metadata: "ExtMetadata | None" = None
