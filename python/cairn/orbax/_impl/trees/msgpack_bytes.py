"""Trees as bytes of msgpack, in the form of flax and of Orbax's old versions.

Needs the package msgpack, which flax and Orbax install: Cairn's native part reads and writes files
of this form (cairn.load, cairn.save), and not bytes in memory.
"""

import contextlib
import enum
from collections.abc import Mapping
from typing import Any

# msgpack counts the bytes of a value in 32 bits. Larger arrays are stored as several.
MAX_CHUNK_SIZE = 2**30

_CHUNKED = "__msgpack_chunked_array__"


class _Extension(enum.IntEnum):
    ARRAY = 1
    COMPLEX = 2
    SCALAR = 3
    TUPLE = 4


def msgpack_serialize(pytree: Any, in_place: bool = False) -> bytes:
    """The bytes of a tree of dicts, lists, tuples, arrays, numbers, str, bytes and None.

    Args:
      pytree: keys are str, for msgpack_restore() takes no others.
      in_place: whether to save memory: the dicts of the tree are changed, and keep the order of
        their keys, which are sorted otherwise.

    Raises:
      ValueError: a value of another type, or an array of objects.
    """
    import jax
    import msgpack

    tree = pytree if in_place else jax.tree_util.tree_map(lambda leaf: leaf, pytree)
    tree = _prepared(tree)
    packed: bytes = msgpack.packb(tree, default=_pack_extension, strict_types=True)
    return packed


def msgpack_restore(encoded_pytree: bytes) -> Any:
    """The tree. Its arrays are those of NumPy, and cannot be written to.

    Raises ValueError for bytes that are not msgpack, and for extensions of other programs.
    """
    import msgpack

    tree = msgpack.unpackb(encoded_pytree, ext_hook=_unpack_extension, raw=False)
    return _joined(tree)


# ---- large arrays: only where dicts alone lead to them, as in Orbax ----


def _prepared(node: Any) -> Any:
    import jax
    import numpy as np

    if isinstance(node, dict):
        for key, child in node.items():
            node[key] = _prepared(child)
        return node
    if isinstance(node, jax.Array):
        node = np.array(node)
    if isinstance(node, np.ndarray) and node.nbytes > MAX_CHUNK_SIZE:
        return _split(node)
    return node


def _numbered(values: Any) -> "dict[str, Any]":
    return {str(number): value for number, value in enumerate(values)}


def _in_order(numbered: "Mapping[str, Any]") -> "list[Any]":
    return [numbered[str(number)] for number in range(len(numbered))]


def _split(array: Any) -> "dict[str, Any]":
    length = max(1, MAX_CHUNK_SIZE // array.dtype.itemsize)
    flat = array.reshape(-1)
    starts = range(0, flat.size, length)
    return {
        _CHUNKED: True,
        "shape": _numbered(array.shape),
        "chunks": _numbered(flat[start : start + length] for start in starts),
    }


def _joined(node: Any) -> Any:
    import numpy as np

    if not isinstance(node, dict):
        return node
    if _CHUNKED in node:
        flat = np.concatenate(_in_order(node["chunks"]))
        return flat.reshape(_in_order(node["shape"]))
    for key, child in node.items():
        node[key] = _joined(child)
    return node


# ---- values that msgpack does not have ----


def _pack_extension(value: Any) -> Any:
    import jax
    import msgpack
    import numpy as np

    if isinstance(value, np.ndarray | jax.Array):
        return msgpack.ExtType(_Extension.ARRAY, _pack_array(np.asarray(value)))
    if isinstance(value, np.generic):
        return msgpack.ExtType(_Extension.SCALAR, _pack_array(np.asarray(value)))
    if isinstance(value, complex):
        return msgpack.ExtType(_Extension.COMPLEX, msgpack.packb((value.real, value.imag)))
    if isinstance(value, tuple):
        items = msgpack.packb(list(value), default=_pack_extension, strict_types=True)
        return msgpack.ExtType(_Extension.TUPLE, items)
    raise ValueError(f"{type(value)} is not a type that msgpack stores: {value!r}")


def _pack_array(array: Any) -> Any:
    import msgpack

    if array.dtype.hasobject or array.dtype.isalignedstruct:
        raise ValueError(f"an array of type {array.dtype} cannot be stored in msgpack")
    return msgpack.packb((array.shape, array.dtype.name, array.tobytes()))


def _unpack_extension(code: int, data: bytes) -> Any:
    import msgpack

    if code == _Extension.ARRAY:
        return _unpack_array(data)
    if code == _Extension.SCALAR:
        return _unpack_array(data)[()]
    if code == _Extension.COMPLEX:
        return complex(*msgpack.unpackb(data))
    if code == _Extension.TUPLE:
        return tuple(msgpack.unpackb(data, ext_hook=_unpack_extension, raw=False))
    raise ValueError(f"extension {code} of msgpack is not one of {list(_Extension)}")


def _unpack_array(data: bytes) -> Any:
    import msgpack
    import numpy as np

    shape, name, values = msgpack.unpackb(data)
    with contextlib.suppress(ImportError):
        import ml_dtypes  # noqa: F401  tells NumPy the names of bfloat16 and the like
    return np.frombuffer(values, np.dtype(name)).reshape(shape)
