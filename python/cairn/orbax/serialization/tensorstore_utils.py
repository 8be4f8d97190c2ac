"""TensorStore's specs and contexts for the arrays of a checkpoint.

Public in Orbax is `get_ts_context`; the other names are those of its internal module.
"""

from typing import Any

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.types.array_metadata import ArrayMetadata, ExtMetadata
from cairn.orbax._impl.types.kvstore_specs import (
    DEFAULT_DRIVER,
    FILE_DRIVER,
    PROCESS_SUBDIR_PREFIX,
    REPLICA_SUBDIR_SUFFIX,
    STORE_ARRAY_DATA_EQUAL_TO_FILL_VALUE,
    ZARR_VER2,
    ZARR_VER3,
    JsonSpec,
    OcdbtKvStoreWriteOptions,
    OcdbtProcessSpec,
    OcdbtTemporaryMetadataContext,
    OcdbtWriteMode,
    build_kvstore_tspec,
    calculate_chunk_byte_size,
    get_sharding_tensorstore_spec,
    get_ts_context,
    is_remote_storage,
    open_kv_store,
)
from cairn.orbax._impl.types.tensorstore_facts import (
    array_metadata_from_tensorstore,
    assert_parameter_files_exist,
    get_tensorstore_raw_bytes,
    print_ts_debug_data,
    resolve_compression_settings,
)
from cairn.orbax._impl.types.tensorstore_specs import (
    ArrayReadSpec,
    ArrayWriteSpec,
    build_array_read_spec,
    build_array_write_spec,
    get_cast_tspec_deserialize,
    get_cast_tspec_serialize,
    get_json_tspec_read,
    get_json_tspec_write,
)

__getattr__ = _hints(__name__)

Shape = tuple[int, ...]
DType = Any  # a type of NumPy or JAX

__all__ = [
    "DEFAULT_DRIVER",
    "FILE_DRIVER",
    "PROCESS_SUBDIR_PREFIX",
    "REPLICA_SUBDIR_SUFFIX",
    "STORE_ARRAY_DATA_EQUAL_TO_FILL_VALUE",
    "ZARR_VER2",
    "ZARR_VER3",
    "ArrayMetadata",
    "ArrayReadSpec",
    "ArrayWriteSpec",
    "DType",
    "ExtMetadata",
    "JsonSpec",
    "OcdbtKvStoreWriteOptions",
    "OcdbtProcessSpec",
    "OcdbtTemporaryMetadataContext",
    "OcdbtWriteMode",
    "Shape",
    "array_metadata_from_tensorstore",
    "assert_parameter_files_exist",
    "build_array_read_spec",
    "build_array_write_spec",
    "build_kvstore_tspec",
    "calculate_chunk_byte_size",
    "get_cast_tspec_deserialize",
    "get_cast_tspec_serialize",
    "get_json_tspec_read",
    "get_json_tspec_write",
    "get_sharding_tensorstore_spec",
    "get_tensorstore_raw_bytes",
    "get_ts_context",
    "is_remote_storage",
    "open_kv_store",
    "print_ts_debug_data",
    "resolve_compression_settings",
]
