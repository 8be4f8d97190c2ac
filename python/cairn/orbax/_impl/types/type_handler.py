"""The interface of type handlers, which save and restore leaves of one type."""

import abc
import copy
from typing import Any


class ParamInfo:
    """Describes a leaf to its type handler.

    name: the keys joined with dots. parent_dir: the directory of the tree; path is name in it. The
    others are options of the save or restore. ts_context is None, because there is no TensorStore
    here, unless the handler is a subclass of one of Orbax.
    """

    path: Any
    parent_dir: Any

    def __init__(
        self,
        *,
        name: str,
        parent_dir: Any,
        path: Any = None,
        keypath: Any = None,
        skip_deserialize: "bool | None" = None,
        byte_limiter: Any = None,
        device_host_byte_limiter: Any = None,
        is_ocdbt_checkpoint: "bool | None" = None,
        use_compression: "bool | None" = True,
        use_zarr3: "bool | None" = False,
        ocdbt_target_data_file_size: "int | None" = None,
        ts_context: Any = None,
        value_typestr: "str | None" = None,
        enable_pinned_host_transfer: bool = False,
        raise_array_data_missing_error: bool = True,
        write_shape: Any = None,
        is_prioritized_key_fn: Any = None,
    ) -> None:
        self.name = name
        self.parent_dir = parent_dir
        self.path = path if path is not None else parent_dir / name
        self.keypath = keypath
        self.skip_deserialize = skip_deserialize
        self.byte_limiter = byte_limiter
        self.device_host_byte_limiter = device_host_byte_limiter
        self.is_ocdbt_checkpoint = is_ocdbt_checkpoint
        self.use_compression = use_compression
        self.use_zarr3 = use_zarr3
        self.ocdbt_target_data_file_size = ocdbt_target_data_file_size
        self.ts_context = ts_context
        self.value_typestr = value_typestr
        self.enable_pinned_host_transfer = enable_pinned_host_transfer
        self.raise_array_data_missing_error = raise_array_data_missing_error
        self.write_shape = write_shape
        self.is_prioritized_key_fn = is_prioritized_key_fn

    def replace(self, **changes: Any) -> "ParamInfo":
        """A copy with other values."""
        changed = copy.copy(self)
        for name, value in changes.items():
            setattr(changed, name, value)
        return changed

    async def await_path_creation(self) -> None:
        """Returns at once: directories exist when a handler is called."""


class TypeHandler(abc.ABC):
    """Saves and restores leaves of one type."""

    @abc.abstractmethod
    def typestr(self) -> str:
        """The name by which a checkpoint remembers the type."""

    @abc.abstractmethod
    async def metadata(self, infos: Any) -> Any:
        """Returns the metadata of stored leaves. Reads no values."""

    @abc.abstractmethod
    async def serialize(self, values: Any, infos: Any, args: Any = None) -> Any:
        """Copies what the caller may change, and returns futures of the rest."""

    @abc.abstractmethod
    async def deserialize(self, infos: Any, args: Any = None) -> Any:
        """The values of stored leaves."""

    def finalize(self, directory: Any) -> None:  # noqa: B027
        """Ends the writes of the handler. As in Orbax, no checkpointer calls it."""


def check_input_arguments(*args: Any) -> None:
    """Raises ValueError unless all sequences have the same length, which is not 0.

    As in Orbax, one sequence alone may be empty.
    """
    if len(args) > 1 and len(args[0]) == 0:
        raise ValueError("Cannot pass TypeHandler input of length 0.")
    if any(len(one) != len(args[0]) for one in args):
        raise ValueError("Found input args with mismatched lengths.")
