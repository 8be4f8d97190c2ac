"""TensorStore's JSON specs of stored arrays, for programs that open them with TensorStore."""

from typing import Any

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
