"""TensorStore's JSON specs of key-value stores, for programs that open them with TensorStore."""

import dataclasses
import enum
import json
import os
from collections.abc import Sequence
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.leaves.leaf_reads import numpy_dtype

FILE_DRIVER = "file"
DEFAULT_DRIVER = FILE_DRIVER
ZARR_VER2 = "zarr"
ZARR_VER3 = "zarr3"
PROCESS_SUBDIR_PREFIX = "ocdbt.process_"
REPLICA_SUBDIR_SUFFIX = "replica_"
STORE_ARRAY_DATA_EQUAL_TO_FILL_VALUE = True  # so that a missing chunk is known to be lost

JsonSpec = dict[str, Any]


@enum.unique
class OcdbtWriteMode(enum.Enum):
    """For what a database is opened, other than reading."""

    WRITE = "write"  # a process writes to its own database
    MERGE = "merge"  # to merge the databases of all processes
    COMMIT_TEMPORARY = "commit_temporary"  # to commit metadata that was kept elsewhere


@dataclasses.dataclass(frozen=True)
class OcdbtKvStoreWriteOptions:
    """Options for opening a database for writing.

    target_data_file_size: bytes; 0: no limit; None: the default of the store.
    store_ocdbt_metadata_and_values_separately: nodes below "ocdbt_meta/", values below
    "ocdbt_data/".
    """

    mode: OcdbtWriteMode
    target_data_file_size: "int | None" = None
    store_ocdbt_metadata_and_values_separately: bool = False


@dataclasses.dataclass(frozen=True)
class OcdbtTemporaryMetadataContext:
    """path: a local directory for a database's manifest and nodes until they are committed."""

    path: Any


@dataclasses.dataclass(frozen=True)
class OcdbtProcessSpec:
    """The directory of one process's database: str() gives its name.

    process_id: letters and digits. Raises ValueError for other characters.
    """

    process_id: str
    use_replica_suffix: bool = False

    def __post_init__(self) -> None:
        str(self)

    def __str__(self) -> str:
        return _cairn.process_folder(self.process_id, self.use_replica_suffix)

    @classmethod
    def parse(cls, s: str) -> "OcdbtProcessSpec":
        """Parses the name of a directory. Raises ValueError for any other name."""
        return cls(*_cairn.parse_process_folder(s))


def build_kvstore_tspec(
    directory: str,
    name: "str | None" = None,
    *,
    use_ocdbt: bool = True,
    ocdbt_process_spec: "OcdbtProcessSpec | None" = None,
    ocdbt_write_options: "OcdbtKvStoreWriteOptions | None" = None,
    ocdbt_temporary_metadata_context: "OcdbtTemporaryMetadataContext | None" = None,
) -> JsonSpec:
    """The spec of the store below a directory.

    Args:
      directory: an absolute path, or gs://bucket/path.
      name: of the parameter: a prefix of keys in a database, else a directory.
      use_ocdbt: whether the directory has a database. The options below are for databases.
      ocdbt_process_spec: the process whose database it is.
      ocdbt_write_options: None to read.
      ocdbt_temporary_metadata_context: where its metadata is until it is committed.

    Raises ValueError for a relative path, and for options that exclude each other.
    """
    process = write = None
    if ocdbt_process_spec is not None:
        process = (ocdbt_process_spec.process_id, ocdbt_process_spec.use_replica_suffix)
    if ocdbt_write_options is not None:
        given = ocdbt_write_options
        separately = given.store_ocdbt_metadata_and_values_separately
        write = (given.mode.value, given.target_data_file_size, separately)
    temporary = ocdbt_temporary_metadata_context
    text = _cairn.kvstore_spec(
        directory=os.fspath(directory),
        name=name,
        use_ocdbt=use_ocdbt,
        process=process,
        write=write,
        temporary_metadata=None if temporary is None else os.fspath(temporary.path),
    )
    return as_spec(text)


def as_spec(text: str) -> JsonSpec:
    """The object of a spec's text. Shapes are tuples, as in Orbax."""
    spec: JsonSpec = json.loads(text, object_hook=_with_tuples)
    return spec


def _with_tuples(spec: JsonSpec) -> JsonSpec:
    return {
        key: tuple(value) if key in ("shape", "chunks", "chunk_shape") else value
        for key, value in spec.items()
    }


def is_remote_storage(tspec: "JsonSpec | str") -> bool:
    """Whether a spec (JSON or URL) names a network store, or a store on top of one."""
    return _cairn.is_remote_storage(tspec if isinstance(tspec, str) else json.dumps(tspec))


def get_sharding_tensorstore_spec(directory: str, param_name: str) -> JsonSpec:
    """The spec of the text about a leaf's sharding, in the file _sharding of a directory."""
    return as_spec(_cairn.sharding_spec(os.fspath(directory), param_name))


def calculate_chunk_byte_size(
    write_shape: "Sequence[int]",
    dtype: Any,
    *,
    chunk_byte_size: "int | None",
    ocdbt_target_data_file_size: "int | None" = None,
    kvstore_spec: "JsonSpec | None" = None,
) -> "int | None":
    """The most bytes of a chunk in a database, whose data files hold it. None: no limit.

    Args:
      write_shape: of the pieces that are written whole.
      dtype: as stored.
      chunk_byte_size: the wanted size; None: the whole piece.
      ocdbt_target_data_file_size: bytes; 0: no limit; None: the default of the store.
      kvstore_spec: of the database.
    """
    return _cairn.calculate_chunk_byte_size(
        write_shape=list(write_shape),
        dtype=numpy_dtype(dtype).name,
        chunk_byte_size=chunk_byte_size,
        target_file_bytes=ocdbt_target_data_file_size,
        kvstore_spec=None if kvstore_spec is None else json.dumps(kvstore_spec),
    )


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


async def open_kv_store(kvstore_tspec: JsonSpec, ts_context: Any) -> Any:
    """Opens a store with TensorStore. Needs the package tensorstore."""
    import tensorstore

    spec = tensorstore.KvStore.Spec(kvstore_tspec)
    return await tensorstore.KvStore.open(spec, context=ts_context)
