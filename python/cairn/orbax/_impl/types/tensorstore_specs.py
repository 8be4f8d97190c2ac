"""TensorStore's JSON specs of stored arrays, for programs that open them with TensorStore."""

import json
import os
from collections.abc import Sequence
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.leaves.leaf_args import RestoreArgs, SaveArgs
from cairn.orbax._impl.leaves.leaf_reads import is_key_dtype, numpy_dtype
from cairn.orbax._impl.types.array_metadata import ArrayMetadata, ExtMetadata
from cairn.orbax._impl.types.kvstore_specs import (
    JsonSpec,
    OcdbtTemporaryMetadataContext,
    as_spec,
)
from cairn.orbax._impl.types.type_handler import ParamInfo


class ArrayReadSpec:
    """The spec that reads an array."""

    def __init__(
        self,
        directory: str,
        relative_array_filename: str,
        use_zarr3: bool,
        *,
        use_ocdbt: bool,
        metadata_key: "str | None" = None,
        raise_array_data_missing_error: bool = True,
        target_dtype: Any = None,
    ) -> None:
        """
        Args:
          directory: of the item: an absolute path, or gs://bucket/path.
          relative_array_filename: the name of the array.
          use_zarr3: whether it is Zarr v3.
          use_ocdbt: whether the directory has a database; else each array has a directory.
          metadata_key: the name of the file with the array's metadata.
          raise_array_data_missing_error: whether a missing chunk is an error; else it reads as
            zeros.
          target_dtype: the type to which elements are cast.
        """
        is_cast = target_dtype is not None and not is_key_dtype(target_dtype)
        text = _cairn.array_read_spec(
            directory=os.fspath(directory),
            name=relative_array_filename,
            use_zarr3=bool(use_zarr3),
            use_ocdbt=bool(use_ocdbt),
            metadata_key=metadata_key,
            raise_array_data_missing_error=bool(raise_array_data_missing_error),
            target_dtype=numpy_dtype(target_dtype).name if is_cast else None,
        )
        self._json_spec = as_spec(text)

    @property
    def json(self) -> JsonSpec:
        """The spec."""
        return self._json_spec


class ArrayWriteSpec:
    """The spec that creates and writes an array, and the `metadata` that follow from it."""

    def __init__(
        self,
        directory: str,
        relative_array_filename: str,
        *,
        global_shape: "Sequence[int]",
        write_shape: "Sequence[int]",
        dtype: Any,
        target_dtype: Any = None,
        chunk_byte_size: "int | None" = None,
        shard_axes: "tuple[int, ...]" = (),
        use_compression: bool = True,
        use_zarr3: bool = False,
        use_ocdbt: bool,
        ocdbt_target_data_file_size: "int | None" = None,
        process_id: "int | str | None" = None,
        metadata_key: "str | None" = None,
        replica_separate_folder: bool = False,
        ext_metadata: "ExtMetadata | None" = None,
        store_ocdbt_metadata_and_values_separately: bool = False,
        ocdbt_temporary_metadata_context: "OcdbtTemporaryMetadataContext | None" = None,
    ) -> None:
        """
        Args:
          directory: of the item: an absolute path, or gs://bucket/path.
          relative_array_filename: the name of the array.
          global_shape: of the array.
          write_shape: of the pieces that are written whole.
          dtype: of the given values.
          target_dtype: in which they are stored; None: as given.
          chunk_byte_size: the most bytes of a chunk; None: the piece.
          shard_axes: dimensions that are split first.
          use_compression: zstd, else none.
          use_zarr3: Zarr v3, else Zarr v2.
          use_ocdbt: into a database, else into a directory.
          ocdbt_target_data_file_size: bytes; 0: no limit.
          process_id: the process whose database it is; None: that of the directory itself.
          metadata_key: the name of the file with the array's metadata.
          replica_separate_folder: whether replicas have databases of their own.
          ext_metadata: a part of `metadata`.
          store_ocdbt_metadata_and_values_separately: nodes of the database and values apart.
          ocdbt_temporary_metadata_context: where the database's metadata is until its commit.
        """
        stored = dtype if target_dtype is None else target_dtype
        temporary = ocdbt_temporary_metadata_context
        text, chunk_shape, algorithm, level = _cairn.array_write_spec(
            directory=os.fspath(directory),
            name=relative_array_filename,
            global_shape=list(global_shape),
            write_shape=list(write_shape),
            dtype=numpy_dtype(dtype).name,
            target_dtype=None if target_dtype is None else numpy_dtype(target_dtype).name,
            chunk_byte_size=chunk_byte_size,
            shard_axes=list(shard_axes),
            use_compression=bool(use_compression),
            use_zarr3=bool(use_zarr3),
            use_ocdbt=bool(use_ocdbt),
            target_file_bytes=ocdbt_target_data_file_size,
            process_id=None if process_id is None else str(process_id),
            metadata_key=metadata_key,
            replica_separate_folder=replica_separate_folder,
            store_ocdbt_metadata_and_values_separately=store_ocdbt_metadata_and_values_separately,
            temporary_metadata=None if temporary is None else os.fspath(temporary.path),
        )
        self._json_spec = as_spec(text)
        self._metadata = ArrayMetadata(
            param_name=relative_array_filename,
            shape=tuple(global_shape),
            dtype=stored,
            write_shape=tuple(write_shape),
            chunk_shape=tuple(chunk_shape),
            use_ocdbt=use_ocdbt,
            use_zarr3=use_zarr3,
            ext_metadata=ext_metadata,
            compression_algorithm=algorithm,
            compression_level=level,
        )

    @property
    def json(self) -> JsonSpec:
        """The spec."""
        return self._json_spec

    @property
    def metadata(self) -> ArrayMetadata:
        """How the array is stored."""
        return self._metadata


def build_array_read_spec(
    info: ParamInfo,
    *,
    use_ocdbt: bool,
    metadata_key: "str | None" = None,
    raise_array_data_missing_error: bool = True,
    target_dtype: Any = None,
) -> ArrayReadSpec:
    """The ArrayReadSpec of a leaf. Raises ValueError without a name or a directory."""
    directory, name = _place(info)
    return ArrayReadSpec(
        directory,
        name,
        bool(info.use_zarr3),
        use_ocdbt=use_ocdbt,
        metadata_key=metadata_key,
        raise_array_data_missing_error=raise_array_data_missing_error,
        target_dtype=target_dtype,
    )


def build_array_write_spec(
    info: ParamInfo,
    arg: "SaveArgs | None" = None,
    *,
    global_shape: "tuple[int, ...]",
    local_shape: "tuple[int, ...]",
    dtype: Any,
    use_ocdbt: bool,
    process_index: "int | str | None" = None,
    replica_separate_folder: bool = False,
    metadata_key: "str | None" = None,
    ext_metadata: "ExtMetadata | None" = None,
) -> ArrayWriteSpec:
    """The ArrayWriteSpec of a leaf. Raises ValueError without a name or a directory."""
    directory, name = _place(info)
    chosen = arg or SaveArgs()
    return ArrayWriteSpec(
        directory,
        name,
        global_shape=global_shape,
        write_shape=local_shape,
        dtype=dtype,
        target_dtype=chosen.dtype,
        chunk_byte_size=chosen.chunk_byte_size,
        shard_axes=chosen.shard_axes,
        use_compression=bool(info.use_compression),
        use_zarr3=bool(info.use_zarr3),
        use_ocdbt=use_ocdbt,
        process_id=process_index,
        replica_separate_folder=replica_separate_folder,
        ocdbt_target_data_file_size=info.ocdbt_target_data_file_size,
        metadata_key=metadata_key,
        ext_metadata=ext_metadata,
    )


def _place(info: ParamInfo) -> "tuple[str, str]":
    """The directory of a leaf and its name."""
    if info.name is None or info.parent_dir is None:
        raise ValueError("Must provide info.name and info.parent_dir.")
    return os.fspath(info.parent_dir), info.name


def get_json_tspec_read(
    info: ParamInfo,
    use_ocdbt: bool,
    metadata_key: "str | None" = None,
    raise_array_data_missing_error: bool = True,
) -> JsonSpec:
    """The spec that reads an array: build_array_read_spec().json."""
    return build_array_read_spec(
        info,
        use_ocdbt=use_ocdbt,
        metadata_key=metadata_key,
        raise_array_data_missing_error=raise_array_data_missing_error,
    ).json


def get_json_tspec_write(
    info: ParamInfo,
    use_ocdbt: bool,
    global_shape: "tuple[int, ...]",
    local_shape: "tuple[int, ...]",
    dtype: Any,
    process_index: "int | str | None" = None,
    metadata_key: "str | None" = None,
    arg: "SaveArgs | None" = None,
) -> JsonSpec:
    """The spec that creates and writes an array: build_array_write_spec().json."""
    return build_array_write_spec(
        info,
        arg,
        global_shape=global_shape,
        local_shape=local_shape,
        dtype=dtype,
        use_ocdbt=use_ocdbt,
        process_index=process_index,
        metadata_key=metadata_key,
    ).json


def get_cast_tspec_serialize(tspec: JsonSpec, value: Any, args: SaveArgs) -> JsonSpec:
    """The spec that stores a value in the type of its arguments. `tspec` gets that type."""
    own = numpy_dtype(value.dtype).name
    target = None if args.dtype is None else numpy_dtype(args.dtype).name
    made = as_spec(_cairn.cast_spec_to_write(json.dumps(tspec), own, target))
    tspec["dtype"] = made["base"]["dtype"]
    return {**made, "base": tspec}


def get_cast_tspec_deserialize(tspec: JsonSpec, args: RestoreArgs) -> JsonSpec:
    """The spec that reads an array in the type of its arguments."""
    if args.dtype is None or is_key_dtype(args.dtype):
        return tspec
    made = as_spec(_cairn.cast_spec_to_read(json.dumps(tspec), numpy_dtype(args.dtype).name))
    return {**made, "base": tspec}
