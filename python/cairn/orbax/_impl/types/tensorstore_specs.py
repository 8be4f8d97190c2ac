"""TensorStore's JSON specs of stored arrays, for programs that open them with TensorStore."""

import json
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.leaves.leaf_args import RestoreArgs, SaveArgs
from cairn.orbax._impl.paths import as_path
from cairn.orbax._impl.types.type_handler import ParamInfo


def get_json_tspec_read(
    info: ParamInfo,
    use_ocdbt: bool,
    metadata_key: "str | None" = None,
    raise_array_data_missing_error: bool = True,
) -> "dict[str, Any]":
    """The spec that reads an array.

    Args:
      info: its name, the directory of the checkpoint, and whether it is Zarr v3.
      use_ocdbt: whether the directory has a database; else each array has a directory.
      metadata_key: the name of the file with the array's metadata.
      raise_array_data_missing_error: whether a missing chunk is an error; else it reads as zeros.
    """
    parent = as_path(info.parent_dir)
    spec: dict[str, Any] = {
        "driver": "zarr3" if info.use_zarr3 else "zarr",
        "kvstore": {"driver": "file", "path": str(info.path or parent / info.name)},
        "recheck_cached_data": False,
        "recheck_cached_metadata": False,
        "fill_missing_data_reads": not raise_array_data_missing_error,
    }
    if use_ocdbt:
        folder = {"driver": "file", "path": f"{parent}/"}
        spec["kvstore"] = {
            "driver": "ocdbt",
            "base": {**folder, "file_io_locking": {"mode": "non_atomic"}},
            "manifest": dict(folder),
            "path": info.name,
            "cache_pool": "cache_pool#ocdbt",
        }
    if metadata_key is not None:
        spec["metadata_key"] = metadata_key
    return spec


def get_json_tspec_write(
    info: ParamInfo,
    use_ocdbt: bool,
    global_shape: "tuple[int, ...]",
    local_shape: "tuple[int, ...]",
    dtype: Any,
    process_index: "int | str | None" = None,
    metadata_key: "str | None" = None,
    arg: "SaveArgs | None" = None,
) -> "dict[str, Any]":
    """The spec that creates and writes an array, with its chunk shape chosen.

    Args:
      info: its name, the directory, and how it is stored.
      use_ocdbt: whether the directory has a database; else each array has a directory.
      global_shape: of the array.
      local_shape: of the pieces that are written whole.
      dtype: of the values.
      process_index: the process whose database it is; None: that of the directory itself.
      metadata_key: the name of the file with the array's metadata.
      arg: the type that is stored, and the size of chunks.
    """
    import numpy as np

    if info.name is None or info.parent_dir is None:
        raise ValueError("Must provide info.name and info.parent_dir.")
    chosen = arg or SaveArgs()
    text = _cairn.array_write_spec(
        directory=str(as_path(info.parent_dir)),
        name=info.name,
        global_shape=list(global_shape),
        write_shape=list(local_shape),
        dtype=np.dtype(dtype).name,
        target_dtype=None if chosen.dtype is None else np.dtype(chosen.dtype).name,
        chunk_byte_size=chosen.chunk_byte_size,
        shard_axes=list(chosen.shard_axes),
        use_compression=bool(info.use_compression),
        use_zarr3=bool(info.use_zarr3),
        use_ocdbt=use_ocdbt,
        target_file_bytes=info.ocdbt_target_data_file_size,
        process_id=None if process_index is None else str(process_index),
        metadata_key=metadata_key,
    )
    spec: dict[str, Any] = json.loads(text)
    return spec


def get_ts_context(
    *,
    use_ocdbt: bool = True,
    file_io_concurrency_limit: "int | None" = None,
    data_copy_concurrency_limit: "int | None" = None,
) -> Any:
    """The tensorstore.Context with which the specs are opened. Needs the package tensorstore.

    Args:
      use_ocdbt: whether it has a cache for the nodes of databases.
      file_io_concurrency_limit: files that are read or written at once.
      data_copy_concurrency_limit: threads that copy and compress.
    """
    import tensorstore

    text = _cairn.ts_context(
        use_ocdbt=use_ocdbt,
        file_io_concurrency_limit=file_io_concurrency_limit,
        data_copy_concurrency_limit=data_copy_concurrency_limit,
    )
    return tensorstore.Context(json.loads(text))


def get_cast_tspec_serialize(
    tspec: "dict[str, Any]", value: Any, args: SaveArgs
) -> "dict[str, Any]":
    """The spec that stores a value in the type of its arguments. `tspec` gets that type."""
    import numpy as np

    own = np.dtype(value.dtype).name
    tspec["dtype"] = own if args.dtype is None else np.dtype(args.dtype).name
    return {"base": tspec, "driver": "cast", "dtype": own}


def get_cast_tspec_deserialize(tspec: "dict[str, Any]", args: RestoreArgs) -> "dict[str, Any]":
    """The spec that reads an array in the type of its arguments."""
    import numpy as np

    from cairn.orbax._impl.leaves.leaf_reads import is_key_dtype

    if args.dtype is None or is_key_dtype(args.dtype):
        return tspec
    return {"base": tspec, "driver": "cast", "dtype": np.dtype(args.dtype).name}
