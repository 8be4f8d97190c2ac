"""Objects that the native part does not know: arrays of other frameworks, nodes of other trees."""

from __future__ import annotations

import sys
from collections.abc import Mapping

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from typing import Any


def convert(obj: Any) -> Any:
    """Converts an object for the native part: an array, a dict, a list, a number or a str."""
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(obj, jax.Array):
        from cairn import _jax

        return _jax.sharded_array(obj)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(obj, torch.Tensor):
        from cairn import _torch

        return _torch.native(obj)
    if jax is not None:
        children = _children(jax, obj)
        if children is not _LEAF:
            return children
    if isinstance(obj, Mapping):
        return dict(obj)
    fields = getattr(type(obj), "__dataclass_fields__", None)
    if fields is not None:
        import dataclasses

        return {field.name: getattr(obj, field.name) for field in dataclasses.fields(obj)}
    plain: Any  # of a subclass: an IntEnum, a str with methods of its own
    for plain in (bool, int, float, complex, str, bytes, list, tuple):
        if isinstance(obj, plain):
            return plain(obj)
    if isinstance(obj, bytearray):
        return bytes(obj)
    if hasattr(obj, "__array__") or isinstance(obj, memoryview) or _is_typed_array(obj):
        import numpy as np

        return np.asarray(obj)
    if hasattr(obj, "__dlpack__"):
        import numpy as np

        return np.from_dlpack(obj)
    raise TypeError(
        f"a leaf of type {type(obj).__module__}.{type(obj).__qualname__} cannot be saved; "
        "convert it to an array, a number or a str, or leave it out"
    )


def _is_typed_array(obj: Any) -> bool:
    """Whether it is an array.array of numbers."""
    array = sys.modules.get("array")
    return array is not None and isinstance(obj, array.array) and obj.typecode not in ("u", "w")


_LEAF = object()


def _children(jax: Any, obj: Any) -> Any:
    """Converts a node of JAX's registry. Returns its children or None; _LEAF for a leaf."""
    util = jax.tree_util
    pairs, _ = util.tree_flatten_with_path(obj, is_leaf=lambda node: node is not obj)
    if len(pairs) == 1 and not pairs[0][0]:
        return _LEAF
    if not pairs:
        return {} if isinstance(obj, Mapping) else None  # as Orbax stores it
    if [_number(util, path[0]) for path, _ in pairs] == list(range(len(pairs))):
        return [child for _, child in pairs]
    return {_key(util, path[0]): child for path, child in pairs}


def _key(util: Any, key: Any) -> Any:
    """The key of a child: of a mapping its own, whose type is stored; else text."""
    return key.key if isinstance(key, util.DictKey) else key_text(key)


def _number(util: Any, key: Any) -> Any:
    """The number of a child of a node that counts its children; else None."""
    if isinstance(key, util.FlattenedIndexKey):  # a class that was registered without keys
        return key.key
    return key.idx if isinstance(key, util.SequenceKey) else None


_attributes: dict[type, str] = {}  # where the classes of JAX's keys have their text


def key_text(key: Any) -> str:
    """The text of one key of JAX's key paths, as Orbax stores it."""
    attribute = _attributes.get(type(key))
    if attribute is None:
        attribute = next((name for name in ("key", "idx", "name") if hasattr(key, name)), "")
        _attributes[type(key)] = attribute
    return str(getattr(key, attribute) if attribute else key)


def empty_namedtuple() -> Any:
    """A named tuple without fields. A checkpoint does not record the name of its class."""
    return namedtuple_type("", "EmptyNamedTuple", [])()


def item_value(reader: Any, index: int) -> Any:
    """The value of a leaf that is not an array."""
    info = reader.tensor(index)
    if info.kind == "placeholder":
        return ...
    if info.kind == "string":
        values = reader.strings(index)
        return values[0] if info.shape == () else values
    if info.typestr == "NamedTuple":
        return empty_namedtuple()
    return {"Dict": {}, "List": [], "Tuple": ()}.get(info.typestr)


_made: dict[tuple[str, str, tuple[str, ...]], Any] = {}


def namedtuple_type(module: str, name: str, fields: list[str]) -> Any:
    """The class of a stored named tuple, if the program has imported it; else one like it.

    A checkpoint never makes this function import a module.
    """
    found = getattr(sys.modules.get(module), name, None)
    if (
        isinstance(found, type)
        and issubclass(found, tuple)
        and list(getattr(found, "_fields", ())) == fields
    ):
        return found
    key = (module, name, tuple(fields))
    if key not in _made:
        from collections import namedtuple

        word = name if name.isidentifier() else "NamedTuple"
        _made[key] = namedtuple(word, fields, rename=True)
    return _made[key]
