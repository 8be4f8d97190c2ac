"""Reads of leaves: as Python numbers, arrays of NumPy, arrays of JAX, or text."""

import contextlib
from collections.abc import Callable
from typing import Any

from cairn import _jax
from cairn._casts import conversion
from cairn._leaves import item_value
from cairn.orbax._impl.base import monitoring
from cairn.orbax._impl.leaves.leaf_args import ArrayRestoreArgs, RestoreArgs
from cairn.orbax._impl.leaves.shardings import (
    concrete_sharding,
    from_serialized_string,
    has_layout,
)
from cairn.orbax._impl.stored.stored_tree import StoredTree

# The type to which an array is converted while it is read, or ""; and what then makes the value of
# it and of the leaf's number (None: the array is the value).
_Plan = tuple[str, "Callable[[Any, int], Any] | None"]

_KINDS = ("scalar", "np.ndarray", "jax.Array", "string", "placeholder")

# Values that only the msgpack files of old versions have. No TypeHandler saves or restores them.
_MSGPACK_VALUES = ("np.generic", "complex", "bytes")


def is_msgpack_value(typestr: str) -> bool:
    """Whether a leaf is of a type that only msgpack files have."""
    return typestr in _MSGPACK_VALUES


def numpy_dtype(dtype: Any) -> Any:
    """A type of NumPy for its name or for a type of JAX, in the byte order of the machine."""
    import numpy as np

    try:
        return np.dtype(dtype).newbyteorder("=")
    except TypeError:
        if not isinstance(dtype, str):
            raise
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, dtype))


def is_key_dtype(dtype: Any) -> bool:
    """Whether a type is that of JAX's random keys."""
    import numpy as np

    if dtype is None or isinstance(dtype, np.dtype):
        return False
    import jax

    return bool(jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key))  # type: ignore[attr-defined]


def _kind(args: RestoreArgs, typestr: str) -> str:
    """As what a leaf is restored: one of _KINDS or _MSGPACK_VALUES."""
    wanted = args.restore_type
    if wanted is None:
        if typestr in _KINDS or is_msgpack_value(typestr):
            return typestr
        if typestr:
            raise ValueError(
                f'TypeHandler lookup failed: Unknown type: "{typestr}". Must register a '
                "TypeHandler, by type_handlers.register_type_handler()."
            )
        return "jax.Array" if isinstance(args, ArrayRestoreArgs) else "np.ndarray"
    if isinstance(wanted, str):
        if wanted in _KINDS:
            return wanted
    elif isinstance(wanted, type):
        import jax
        import numpy as np

        if issubclass(wanted, jax.Array):
            return "jax.Array"
        for kind, types in (
            ("scalar", (int, float, bytes, np.number)),
            ("np.ndarray", (np.ndarray,)),
            ("string", (str,)),
            ("placeholder", (type(...),)),
        ):
            if issubclass(wanted, types):
                return kind
    raise ValueError(f"Unknown type {wanted!r}: no TypeHandler restores it")


class LeafReads:
    """Collects reads of many leaves, which run() does together.

    A decision for a leaf holds for all leaves of its type with equal arguments: objects for each
    leaf take more time than reading a small array.
    """

    def __init__(self, stored: StoredTree) -> None:
        self._stored = stored
        # Numbers of whole arrays, or (number, origin, shape).
        self._boxes: list[int | tuple[int, list[int], list[int]]] = []
        self._dtypes: list[str] = []  # of the boxes: the type to which they are converted, or ""
        self._values: list[Any] = []  # of the leaves; None until run() makes them
        # Of leaves that are arrays as they are read: their places in _values and in _boxes.
        self._plain: list[tuple[int, int]] = []
        # Of other leaves: the place in _values, and what makes the value of the arrays.
        self._finishers: list[tuple[int, Callable[[list[Any]], Any]]] = []
        self._plans: dict[Any, _Plan] = {}
        self._shardings: dict[str, Any] = {}  # by their stored text
        self._device_boxes: dict[Any, list[tuple[Any, list[int], list[int]]]] = {}

    def run(self) -> "list[Any]":
        """The values of the leaves, in the order in which they were added."""
        arrays: list[Any] = []
        if self._boxes:
            dtypes = self._dtypes if any(self._dtypes) else None
            arrays = self._stored.reader.read(self._boxes, None, dtypes)
        values = self._values
        for place, at in self._plain:
            values[place] = arrays[at]
        for place, finish in self._finishers:
            values[place] = finish(arrays)
        return values

    def _has_database(self) -> bool:
        """Whether the arrays are in an OCDBT database, if there are any."""
        known = self._stored.tree_metadata().get("use_ocdbt")
        return self._stored.has_database if known is None else bool(known)

    def add(self, index: int, args: RestoreArgs, keeps_metadata: "bool | None" = None) -> None:
        """Plans a leaf.

        keeps_metadata: whether a random key is restored as such; None: as the registry says.
        """
        # The other arguments have no effect on what is an array of NumPy or a number.
        is_of_jax = isinstance(args, ArrayRestoreArgs)
        key = (self._stored.types[index], args.restore_type, args.dtype, is_of_jax)
        try:
            plan = self._plans.get(key)
        except TypeError:  # a list of fields is a type of NumPy, too
            plan = None
        if plan is None:
            plan = self._plan(index, args, keeps_metadata)
            if plan is None:
                return
            with contextlib.suppress(TypeError):
                self._plans[key] = plan
        dtype, finish = plan
        at, place = len(self._boxes), len(self._values)
        self._boxes.append(index)
        self._dtypes.append(dtype)
        self._values.append(None)
        if finish is None:
            self._plain.append((place, at))
        else:
            self._finishers.append((place, lambda arrays: finish(arrays[at], index)))

    def _plan(self, index: int, args: RestoreArgs, keeps_metadata: "bool | None") -> "_Plan | None":
        """How all leaves of this type are restored with these arguments.

        Plans a leaf that needs a plan of its own, and returns None.
        """
        leaf_kind, typestr, stored_dtype = self._stored.types[index]
        if leaf_kind in ("empty", "placeholder"):
            self._values.append(item_value(self._stored.reader, index))
            return None
        kind = _kind(args, typestr)
        if kind == "placeholder":
            self._values.append(...)
            return None
        if (kind == "string") != (leaf_kind == "string"):
            stored = "a string" if leaf_kind == "string" else "an array or a number"
            name = self._stored.infos[index].name
            message = f"{name}: NOT_FOUND: {stored} is stored, not {args.restore_type}"
            if kind != "string" and not self._has_database():
                raise FileNotFoundError(message)  # the directory that an array would have
            raise ValueError(message)
        if kind == "string":
            self._values.append(str(item_value(self._stored.reader, index)))
            return None
        if kind == "jax.Array":
            self._finishers.append((len(self._values), self._jax(index, args, keeps_metadata)))
            self._values.append(None)
            return None
        dtype = None if args.dtype is None or is_key_dtype(args.dtype) else numpy_dtype(args.dtype)
        converted = conversion(stored_dtype, None if kind in ("complex", "bytes") else dtype)
        return converted, self._finisher(kind, args.restore_type, stored_dtype, dtype)

    def _finisher(
        self, kind: str, restore_type: Any, stored_dtype: str, dtype: Any
    ) -> "Callable[[Any, int], Any] | None":
        """What makes the value of an array and of the leaf's number; None: the array is it."""
        if kind == "complex":  # a dtype has no effect on it and on bytes, as in Orbax
            return lambda array, _: array.item()
        if kind == "bytes":
            return lambda array, _: array.tobytes()
        if kind == "np.generic":  # with a dtype, a Python number, as in Orbax
            if dtype is None:
                return lambda array, _: array[()]
            return lambda array, _: _cast(array, dtype).item()
        if kind != "scalar":
            is_same = dtype is None or dtype.name in (stored_dtype, conversion(stored_dtype, dtype))
            return None if is_same else lambda array, _: _cast(array, dtype)

        def number(array: Any, index: int) -> Any:
            array = _cast(array, dtype)
            if array.ndim != 0:
                name = self._stored.infos[index].name
                raise ValueError(f"{name}: an array of shape {array.shape} is not a scalar")
            value = array[()].item()
            return restore_type(value) if isinstance(restore_type, type) else value

        return number

    def _add(self, index: int, origin: "list[int]", extents: "list[int]", dtype: Any) -> int:
        """Reads a box, and converts it to the type if it can; returns its number."""
        self._boxes.append((index, origin, extents))
        self._dtypes.append(conversion(self._stored.types[index][2], dtype))
        return len(self._boxes) - 1

    def _jax(
        self, index: int, args: RestoreArgs, keeps_metadata: "bool | None"
    ) -> "Callable[[list[Any]], Any]":
        import jax

        if keeps_metadata is None:
            keeps_metadata = self._stored.keeps_array_metadata
        info = self._stored.infos[index]
        sharding = self._sharding(index, args)
        given = getattr(args, "sharding", None)
        implementation = self._stored.random_key_impl(index) if keeps_metadata else ""
        dtype = None if args.dtype is None or is_key_dtype(args.dtype) else numpy_dtype(args.dtype)
        wanted = getattr(args, "global_shape", None)
        if wanted is not None and is_key_dtype(args.dtype):
            wanted, sharding = _of_key_data(wanted, args.dtype, sharding)
        placement = given if has_layout(given) else sharding
        wanted = tuple(info.shape if wanted is None else wanted)
        if wanted != tuple(info.shape):
            strict = getattr(args, "strict", True)
            read = self._resized(index, wanted, strict, dtype, placement)
        else:
            if implementation:
                _jax.check_key_sharding(info.name, sharding, info.shape)
            read = self._sharded(index, sharding, dtype)

        def finish(arrays: "list[Any]") -> Any:
            array = read(arrays)
            if placement is not sharding:
                array = jax.device_put(array, placement)
            # It raises TypeError for a shape or a type that key data of this kind does not have.
            return jax.random.wrap_key_data(array, impl=implementation) if implementation else array

        return finish

    def _sharding(self, index: int, args: RestoreArgs) -> Any:
        import jax

        info = self._stored.infos[index]
        if isinstance(args, ArrayRestoreArgs):
            if args.mesh is not None and args.mesh_axes is not None:
                return jax.sharding.NamedSharding(args.mesh, args.mesh_axes)
            if args.sharding is not None:
                return concrete_sharding(args.sharding)
        if not info.sharding:
            raise ValueError(
                f"{info.name}: Sharding of jax.Array cannot be None. None is stored; give "
                "ArrayRestoreArgs(sharding=...) or restore as numpy.ndarray"
            )
        monitoring.warn_of_stored_sharding()
        try:
            if info.sharding not in self._shardings:
                stored = from_serialized_string(info.sharding)
                self._shardings[info.sharding] = stored.to_jax_sharding()
            return self._shardings[info.sharding]
        except ValueError as error:
            raise ValueError(
                f"{info.name}: Sharding of jax.Array should be specified, concrete: the stored one "
                f"is for other devices ({error}); give ArrayRestoreArgs(sharding=...)"
            ) from error

    def _sharded(self, index: int, sharding: Any, dtype: Any) -> "Callable[[list[Any]], Any]":
        """Each device's part, each box read once."""
        shape = tuple(self._stored.infos[index].shape)
        slots: dict[Any, int] = {}
        parts = []
        boxes = self._device_boxes.get((sharding, shape))
        if boxes is None:
            boxes = self._device_boxes[sharding, shape] = _jax.boxes(sharding, shape)
        for device, origin, extents in boxes:
            key = (tuple(origin), tuple(extents))
            if key not in slots:
                slots[key] = self._add(index, origin, extents, dtype)
            parts.append((device, slots[key]))

        def finish(arrays: "list[Any]") -> Any:
            cast = {at: _cast(arrays[at], dtype) for at in slots.values()}
            return _jax.assemble(sharding, shape, [(device, cast[at]) for device, at in parts])

        return finish

    def _resized(
        self, index: int, wanted: "tuple[int, ...]", strict: bool, dtype: Any, placement: Any
    ) -> "Callable[[list[Any]], Any]":
        """The array cut or padded with zeros at the end of each dimension."""
        import jax
        import numpy as np

        info = self._stored.infos[index]
        if strict or len(wanted) != len(info.shape):
            reason = "strict=False cuts and pads" if strict else "Ranks do not match"
            raise ValueError(
                f"{info.name}: Requested shape: {wanted} is not compatible with the stored shape: "
                f"{tuple(info.shape)}. {reason}"
            )
        shared = [min(a, b) for a, b in zip(wanted, info.shape, strict=True)]
        at = self._add(index, [0] * len(shared), shared, dtype)

        def finish(arrays: "list[Any]") -> Any:
            padding = [(0, extent - size) for extent, size in zip(wanted, shared, strict=True)]
            return jax.device_put(np.pad(_cast(arrays[at], dtype), padding), placement)

        return finish


def _of_key_data(
    shape: "tuple[int, ...]", dtype: Any, sharding: Any
) -> "tuple[tuple[int, ...], Any]":
    """The shape and the sharding of the data of random keys of this shape, type and sharding."""
    import jax

    keys = jax.ShapeDtypeStruct(shape, dtype)  # type: ignore[no-untyped-call]
    data = jax.eval_shape(jax.random.key_data, keys).shape
    if isinstance(sharding, jax.sharding.NamedSharding):
        sharding = _jax.key_data_sharding(sharding, len(data))
    return tuple(data), sharding


def _cast(array: Any, dtype: Any) -> Any:
    """The array with this type, without NumPy's warnings, which Orbax's casts do not give."""
    import numpy as np

    if dtype is None or array.dtype == dtype:
        return array
    if array.dtype.kind == "c" and dtype.kind not in "bc":
        array = array.real  # astype() would warn
    with np.errstate(all="ignore"):
        return array.astype(dtype)
