"""The handlers of numbers, arrays and strings. In a tree, the native part does their work."""

from typing import Any

from cairn.orbax._impl.leaves.leaf_args import RestoreArgs, SaveArgs
from cairn.orbax._impl.stored_tree import StoredTree
from cairn.orbax._impl.types.reads import cairn_args, read_leaves
from cairn.orbax._impl.types.type_handler import TypeHandler, check_input_arguments
from cairn.orbax._impl.types.writes import write_leaves


class StandardTypeHandler(TypeHandler):
    """A handler whose type the native part knows. Handlers of users may call it, too."""

    _typestr = ""
    _kind = ""

    def __init__(self, **options: Any) -> None:
        given = [name for name, value in options.items() if value is not None]
        if given:
            raise NotImplementedError(
                f"{type(self).__name__}({given[0]}=...): the native part writes these leaves and "
                "has no such option"
            )

    def typestr(self) -> str:
        """The name by which a checkpoint remembers the type."""
        return self._typestr

    async def metadata(self, infos: Any) -> "list[Any]":
        """Shape, type and storage of stored leaves."""
        from cairn.orbax._impl.tree_metadata import leaf_metadata

        stored = StoredTree(infos[0].parent_dir)
        return [leaf_metadata(stored, stored.index(info.name), self._typestr) for info in infos]

    async def serialize(self, values: Any, infos: Any, args: Any = None) -> "list[Any]":
        """Copies the values, starts to write them, and returns futures of that."""
        args = args or [SaveArgs()] * len(values)
        check_input_arguments(values, infos, args)
        return await write_leaves(values, infos, args)

    async def deserialize(self, infos: Any, args: Any = None) -> "list[Any]":
        """Reads the values."""
        args = args or [RestoreArgs()] * len(infos)
        check_input_arguments(infos, args)
        return await read_leaves(infos, [cairn_args(self._kind, one) for one in args])


class NumpyHandler(StandardTypeHandler):
    """Arrays of NumPy."""

    _typestr = "np.ndarray"
    _kind = "numpy"


class ScalarHandler(StandardTypeHandler):
    """Numbers."""

    _typestr = "scalar"
    _kind = "scalar"


class ArrayHandler(StandardTypeHandler):
    """Arrays of JAX."""

    _typestr = "jax.Array"
    _kind = "array"

    def has_dispatcher(self) -> bool:
        """False: arrays are read and written in this process."""
        return False

    async def deserialize(self, infos: Any, args: Any = None) -> "list[Any]":
        """Reads the values to where the arguments place them."""
        if args is None:
            raise ValueError("Must provide ArrayRestoreArgs to restore as jax.Array.")
        return await super().deserialize(infos, args)


class StringHandler(StandardTypeHandler):
    """Strings."""

    _typestr = "string"
    _kind = "string"


class PlaceholderHandler(StandardTypeHandler):
    """Leaves that are left out."""

    _typestr = "placeholder"
    _kind = "placeholder"

    async def serialize(self, values: Any, infos: Any, args: Any = None) -> "list[Any]":
        """There is nothing to save."""
        raise NotImplementedError("Placeholders cannot be serialized.")


_CLASSES = (NumpyHandler, ScalarHandler, ArrayHandler, StringHandler, PlaceholderHandler)
_ORBAX = "orbax.checkpoint._src.serialization."
_ORBAX_CLASSES = ("NumpyHandler", "ScalarHandler", "ArrayHandler", "StringHandler")


def is_native(handler: Any) -> bool:
    """Whether the native part does all that a handler does, so that it need not be called.

    That is so for the handlers of this file and for those of Orbax itself. A subclass may do more.
    """
    kind = type(handler)
    if kind in _CLASSES:
        return True
    if not kind.__module__.startswith(_ORBAX) or kind.__name__ not in _ORBAX_CLASSES:
        return False
    # Other names of the files: only TensorStore writes those.
    return not getattr(handler, "_metadata_key", None) and not getattr(handler, "_filename", None)
