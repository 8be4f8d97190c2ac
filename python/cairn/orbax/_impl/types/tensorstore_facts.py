"""Facts of an open TensorStore: its spec, its counters and the files of its array."""

import json
import logging
from collections.abc import Sequence
from typing import Any

from cairn.orbax._impl.leaves.leaf_reads import numpy_dtype
from cairn.orbax._impl.leaves.tree_metadata import ArrayMetadata, StorageMetadata
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.stored.zarr_metadata import ZarrMetadata
from cairn.orbax._impl.types import array_metadata
from cairn.orbax._impl.types.status import IoDirection
from cairn.orbax._impl.types.type_handler import ParamInfo

_log = logging.getLogger("cairn.orbax")


def array_metadata_from_tensorstore(t: Any, info: ParamInfo, sharding: Any = None) -> ArrayMetadata:
    """The metadata of an open array.

    Args:
      t: the tensorstore.TensorStore.
      info: the name, the directory and the write shape of the leaf.
      sharding: a part of the result.
    """
    stored = t
    while getattr(stored, "base", None) is not None:
        stored = stored.base
    try:
        zarr = ZarrMetadata.from_json(stored.spec().to_json().get("metadata"))
    except Exception as error:  # an array of another driver is described without it
        _log.debug("Zarr metadata unavailable: %s", error)
        zarr = None
    return ArrayMetadata(
        name=info.name,
        directory=info.parent_dir,
        shape=t.shape,
        dtype=numpy_dtype(t.dtype.name),
        sharding=sharding,
        storage=StorageMetadata(
            chunk_shape=t.chunk_layout.read_chunk_template.shape,
            write_shape=info.write_shape,
            zarr_metadata=zarr,
        ),
    )


async def assert_parameter_files_exist(
    param_dir: Any, metadata_key: "str | None", use_zarr3: bool = False
) -> None:
    """Raises FileNotFoundError if the directory of an array, or its metadata file, is missing."""
    if not as_path(param_dir).exists():
        raise FileNotFoundError(
            f"Individual parameter subdirectory not found at path: {param_dir}."
        )
    file = param_dir / (metadata_key or ("zarr.json" if use_zarr3 else ".zarray"))
    if not as_path(file).exists():
        raise FileNotFoundError(
            f"File not found: {file}. In many cases, this results from copying a checkpoint "
            "without using the `-a` flag."
        )


def resolve_compression_settings(
    metadatas: "Sequence[array_metadata.ArrayMetadata]",
) -> "tuple[str, str]":
    """The compressor and level of all arrays as text; ("mixed", "mixed") if they differ."""
    found = {(one.compression_algorithm, one.compression_level) for one in metadatas}
    if len(found) > 1:
        return "mixed", "mixed"
    algorithm, level = found.pop() if found else ("none", None)
    return str(algorithm), str(level)


def get_tensorstore_raw_bytes(direction: IoDirection = IoDirection.WRITE) -> int:
    """The bytes that TensorStore itself has read or written in this process.

    Cairn reads and writes without TensorStore, so its own are not among them. Needs the package
    tensorstore.
    """
    import tensorstore

    end = "/bytes_written" if direction.name == "WRITE" else "/bytes_read"
    metrics: Any = tensorstore.experimental_collect_matching_metrics("/tensorstore/kvstore/")
    return sum(
        value.get("value", 0)
        for metric in metrics
        if metric.get("name", "").endswith(end)
        for value in metric.get("values", [])
    )


def print_ts_debug_data(key: "str | None", infos: "Sequence[ParamInfo]") -> str:
    """The counters of TensorStore, a key and the names of leaves as JSON text. Logs them.

    Needs the package tensorstore.
    """
    import tensorstore

    found: list[Any] = []
    for prefix in ("/tensorstore", "/mallocz", "/tcmalloc/"):
        found += tensorstore.experimental_collect_matching_metrics(prefix)
    found += [{"key": key}, {"infos": [f"{info.name}" for info in infos]}]
    for one in found:
        _log.debug("ts_metric: %s", one)
    return json.dumps(found)
