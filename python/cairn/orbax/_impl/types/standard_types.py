"""The handlers of numbers, arrays and strings. In a tree, the native part does their work."""

from typing import Any

from cairn.orbax._impl.leaves.leaf_args import RestoreArgs, SaveArgs
from cairn.orbax._impl.leaves.tree_metadata import leaf_metadata
from cairn.orbax._impl.paths.checkpoint_paths import STRINGS_FILE
from cairn.orbax._impl.stored.stored_tree import StoredTree, keeps_array_metadata
from cairn.orbax._impl.types import leaf_options
from cairn.orbax._impl.types.reads import cairn_args, read_leaves
from cairn.orbax._impl.types.type_handler import TypeHandler, check_input_arguments
from cairn.orbax._impl.types.writes import write_leaves


class StandardTypeHandler(TypeHandler):
    """A handler whose type the native part knows. Handlers of users may call it, too."""

    _typestr = ""
    _kind = ""

    def typestr(self) -> str:
        """The name by which a checkpoint remembers the type."""
        return self._typestr

    async def metadata(self, infos: Any) -> "list[Any]":
        """Shape, type and storage of stored leaves."""
        stored = StoredTree(infos[0].parent_dir)
        return [leaf_metadata(stored, stored.index(info.name), self._typestr) for info in infos]

    async def serialize(self, values: Any, infos: Any, args: Any = None) -> "list[Any]":
        """Copies the values, starts to write them, and returns futures of that."""
        args = args or [SaveArgs()] * len(values)
        check_input_arguments(values, infos, args)
        return await write_leaves(values, infos, args, self)

    async def deserialize(self, infos: Any, args: Any = None) -> "list[Any]":
        """Reads the values."""
        args = args or [RestoreArgs()] * len(infos)
        check_input_arguments(infos, args)
        chosen = [cairn_args(self._kind, one) for one in args]
        return await read_leaves(infos, chosen, keeps_array_metadata(self))


class NumpyHandler(StandardTypeHandler):
    """Arrays of NumPy.

    metadata_key: the name of the files with the arrays' metadata, for Zarr v2; in a database only
    without enable_post_merge_validation. A restore finds them. ocdbt_process_id has no effect: the
    database that it names is merged. deepcopy_host_arrays=False: arrays must not change until the
    save has ended.
    """

    _typestr = "np.ndarray"
    _kind = "numpy"

    def __init__(
        self,
        metadata_key: "str | None" = None,
        ocdbt_process_id: "str | None" = None,
        deepcopy_host_arrays: bool = True,
    ) -> None:
        self._metadata_key = metadata_key
        self._override_ocdbt_process_id = ocdbt_process_id
        self._deepcopy_host_arrays = deepcopy_host_arrays


class ScalarHandler(NumpyHandler):
    """Numbers. The options are those of NumpyHandler."""

    _typestr = "scalar"
    _kind = "scalar"

    def __init__(
        self, metadata_key: "str | None" = None, ocdbt_process_id: "str | None" = None
    ) -> None:
        super().__init__(metadata_key, ocdbt_process_id, deepcopy_host_arrays=False)


class ArrayHandler(StandardTypeHandler):
    """Arrays of JAX.

    metadata_key: as in NumpyHandler. primary_host must be 0; None is the same in one process.
    replica_id: the replica that writes, where replicas do not share the work; None: the first of
    each process. use_replica_parallel: they share it, down to pieces of
    min_slice_bytes_for_replica_parallel, among at most max_replicas_for_replica_parallel; None: not
    on GPUs. enable_write_sharding_file=False: no file _sharding. array_metadata_store=None: no
    files array_metadatas, and random keys come back as their data.
    enable_replica_parallel_separate_folder: replicated arrays of several processes have databases
    of their own until the end. dispatcher and callback must be None.

    Raises NotImplementedError for what must not be set.
    """

    _typestr = "jax.Array"
    _kind = "array"

    def __init__(
        self,
        metadata_key: "str | None" = None,
        primary_host: "int | None" = 0,
        replica_id: "int | None" = 0,
        use_replica_parallel: "bool | None" = None,
        min_slice_bytes_for_replica_parallel: "int | None" = None,
        max_replicas_for_replica_parallel: "int | None" = None,
        enable_write_sharding_file: bool = True,
        array_metadata_store: Any = None,
        enable_replica_parallel_separate_folder: bool = False,
        dispatcher: Any = None,
        callback: Any = None,
    ) -> None:
        if use_replica_parallel is None:
            use_replica_parallel = leaf_options.default_use_replica_parallel()
        self._metadata_key = metadata_key
        self._primary_host = primary_host
        self._replica_id = replica_id
        self._use_replica_parallel = use_replica_parallel
        self._min_slice_bytes_for_replica_parallel = min_slice_bytes_for_replica_parallel
        self._max_replicas_for_replica_parallel = max_replicas_for_replica_parallel
        self._enable_write_sharding_file = enable_write_sharding_file
        self._array_metadata_store = array_metadata_store
        self._enable_replica_parallel_separate_folder = enable_replica_parallel_separate_folder
        self._dispatcher = dispatcher
        self._callback = callback
        leaf_options.check_supported(self)

    def has_dispatcher(self) -> bool:
        """False: arrays are read and written in this process."""
        return False

    async def deserialize(self, infos: Any, args: Any = None) -> "list[Any]":
        """Reads the values to where the arguments place them."""
        if args is None:
            raise ValueError("Must provide ArrayRestoreArgs to restore as jax.Array.")
        return await super().deserialize(infos, args)


class SingleReplicaArrayHandler(ArrayHandler):
    """Arrays of JAX whose replicas are those of a mesh; the values are those of ArrayHandler.

    Each process reads the parts of its devices, which the file system of all has: no replica reads
    for the others, and nothing is broadcast. So the options of Orbax's class have no effect:
    the axis and number of the replica that would read, and the memory of the broadcast. Others are
    those of ArrayHandler.
    """

    def __init__(
        self,
        replica_axis_index: "int | None" = 0,
        primary_replica_id: "int | None" = 0,
        broadcast_memory_limit_bytes: "int | None" = None,
        broadcast_memory_scaling_factor: "float | None" = 0.75,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.replica_axis_index = replica_axis_index
        self.primary_replica_id = primary_replica_id
        self.broadcast_memory_limit_bytes = broadcast_memory_limit_bytes
        self.broadcast_memory_scaling_factor = broadcast_memory_scaling_factor

    async def deserialize(self, infos: Any, args: Any = None) -> "list[Any]":
        """Reads the values to where the arguments place them.

        Raises ValueError for other arguments than SingleReplicaArrayRestoreArgs with a sharding.
        """
        self.check_arguments(args)
        return await super().deserialize(infos, args)

    def check_arguments(self, args: Any) -> None:
        """Raises ValueError for other arguments than SingleReplicaArrayRestoreArgs."""
        given: list[Any] = [None] if args is None else list(args)
        for one in given:
            if not hasattr(one, "single_replica_sharding"):
                raise ValueError(f"Must provide `SingleReplicaArrayRestoreArgs`, but got {one!r}.")
            if one.sharding is None:
                raise ValueError("SingleReplicaArrayRestoreArgs must have a `sharding`.")


class StringHandler(StandardTypeHandler):
    """Strings. filename: of the file that has them all; None: _strings.json."""

    _typestr = "string"
    _kind = "string"

    def __init__(self, filename: "str | None" = None) -> None:
        self._filename = filename or STRINGS_FILE


class PlaceholderHandler(StandardTypeHandler):
    """Leaves that are left out."""

    _typestr = "placeholder"
    _kind = "placeholder"

    async def serialize(self, values: Any, infos: Any, args: Any = None) -> "list[Any]":
        """There is nothing to save."""
        raise NotImplementedError("Placeholders cannot be serialized.")


_CLASSES = (NumpyHandler, ScalarHandler, ArrayHandler, StringHandler, PlaceholderHandler)


def saves_natively(handler: Any) -> bool:
    """Whether the native part can save for a handler; it may restore in a way of its own."""
    return is_native(handler) or type(handler) is SingleReplicaArrayHandler


_ORBAX = "orbax.checkpoint._src.serialization."
_ORBAX_CLASSES = ("NumpyHandler", "ScalarHandler", "ArrayHandler", "StringHandler")


def is_native(handler: Any) -> bool:
    """Whether the native part does all that a handler does, so that it need not be called.

    That is so for the handlers of this file and for those of Orbax itself. A subclass may do more.
    """
    kind = type(handler)
    if kind in _CLASSES:
        return True
    return kind.__module__.startswith(_ORBAX) and kind.__name__ in _ORBAX_CLASSES
