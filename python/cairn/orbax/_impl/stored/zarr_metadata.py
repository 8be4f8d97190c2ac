"""The Zarr metadata of an array: StorageMetadata.zarr_metadata."""

import dataclasses
import json
from typing import Any

from cairn import _cairn


@dataclasses.dataclass(frozen=True, repr=False)
class Compression:
    """A compressor and its level, if it has one."""

    algorithm: str
    level: "int | None" = None

    def __repr__(self) -> str:
        return self.algorithm if self.level is None else f"{self.algorithm}:{self.level}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class ZarrMetadata:
    """The members that both versions of Zarr record.

    dtype: as stored ("<f4" in version 2, "float32" in version 3). chunk_shape: of shards, where
    there are any.
    """

    zarr_format: int = dataclasses.field(default=0, init=False)
    shape: "tuple[int, ...]"
    dtype: str
    chunk_shape: "tuple[int, ...]"
    compression: "Compression | None"

    @classmethod
    def from_json(cls, meta: "dict[str, Any] | None") -> "ZarrMetadata | None":
        """Parses the metadata of an array (.zarray, zarr.json, a spec). None: another version."""
        return from_native(_cairn.zarr_metadata_from_json(json.dumps(meta or {})))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Zarr2Metadata(ZarrMetadata):
    """Zarr version 2. order: of the elements of a chunk, "C" or "F"."""

    zarr_format: int = dataclasses.field(default=2, init=False)
    order: str
    dimension_separator: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Zarr3Metadata(ZarrMetadata):
    """Zarr version 3. inner_chunk_shape: of the chunks in a shard; None without shards."""

    zarr_format: int = dataclasses.field(default=3, init=False)
    inner_chunk_shape: "tuple[int, ...] | None"


def from_native(found: "tuple[Any, ...] | None") -> "ZarrMetadata | None":
    """The metadata that _cairn.Reader.zarr_metadata() returns."""
    if found is None:
        return None
    version, shape, dtype, chunk_shape, compression, order, separator, inner = found
    common = {
        "shape": shape,
        "dtype": dtype,
        "chunk_shape": chunk_shape,
        "compression": compression and Compression(*compression),
    }
    if version == 2:
        return Zarr2Metadata(**common, order=order, dimension_separator=separator)
    return Zarr3Metadata(**common, inner_chunk_shape=inner)
