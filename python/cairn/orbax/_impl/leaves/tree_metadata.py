"""The metadata of a stored tree: a tree with ArrayMetadata and the like as leaves."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

from cairn._leaves import item_value
from cairn.orbax._impl.leaves.leaf_reads import numpy_dtype
from cairn.orbax._impl.leaves.shardings import from_serialized_string
from cairn.orbax._impl.stored.stored_tree import StoredTree
from cairn.orbax._impl.stored.zarr_metadata import from_native
from cairn.orbax._impl.trees.pytrees import is_empty


@dataclasses.dataclass(repr=False)
class Metadata:
    """A leaf: its name, and the directory of its item."""

    name: str
    directory: Any

    def __repr__(self) -> str:
        return f"{type(self).__name__} :  name={self.name},  directory={self.directory},"


@dataclasses.dataclass
class StorageMetadata:
    """How an array is stored. write_shape: the piece that one process wrote."""

    chunk_shape: "tuple[int, ...] | None"
    write_shape: "tuple[int, ...] | None" = None
    zarr_metadata: Any = dataclasses.field(default=None, repr=False, compare=False)


@dataclasses.dataclass(repr=False)
class ArrayMetadata(Metadata):
    """An array. Two are equal if all but name and directory is."""

    shape: "tuple[int, ...]"
    sharding: Any
    dtype: Any
    storage: "StorageMetadata | None" = None

    @classmethod
    def from_shape_dtype_struct(cls, s: Any, name: Any = None, directory: Any = None) -> Any:
        """Returns the metadata of a jax.ShapeDtypeStruct."""
        return cls(
            name=name, directory=directory, shape=s.shape, sharding=s.sharding, dtype=s.dtype
        )

    def __repr__(self) -> str:
        return (
            f"{super().__repr__()}  shape={self.shape},  sharding={self.sharding},"
            f"  dtype={self.dtype},  storage={self.storage},"
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ArrayMetadata)
            and self.shape == other.shape
            and self.sharding == other.sharding
            and self.dtype == other.dtype
            and self.storage == other.storage
        )


@dataclasses.dataclass
class ScalarMetadata(ArrayMetadata):
    """A number."""

    shape: "tuple[int, ...]" = ()
    sharding: Any = None
    dtype: Any = None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ScalarMetadata) and self.dtype == other.dtype


@dataclasses.dataclass
class StringMetadata(Metadata):
    """A text."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, StringMetadata)


class TreeMetadata:
    """The metadata of a tree. Behaves as the tree for access by key; a node for JAX.

    The tree is a container or a single leaf. Raises ValueError for None and other empty nodes.
    """

    _is_node = False

    def __init__(self, *, tree: Any, custom_metadata: Any = None, use_zarr3: bool = False) -> None:
        if not isinstance(tree, dict | list | tuple) and is_empty(tree):
            raise ValueError(f"Unsupported tree type: {type(tree)}")
        self._tree = tree
        self._custom_metadata = custom_metadata
        self._use_zarr3 = use_zarr3
        _make_node()

    @property
    def tree(self) -> Any:
        """The tree."""
        return self._tree

    @property
    def custom_metadata(self) -> Any:
        """The custom metadata of the tree."""
        return self._custom_metadata

    @property
    def use_zarr3(self) -> bool:
        """Whether the arrays are in Zarr v3."""
        return self._use_zarr3

    @classmethod
    def build(
        cls, tree: Any, *, custom_metadata: Any = None, use_zarr3: bool = False
    ) -> "TreeMetadata":
        """The metadata of a tree."""
        return cls(tree=tree, custom_metadata=custom_metadata, use_zarr3=use_zarr3)

    def __getitem__(self, key: Any) -> Any:
        return self._tree[key]

    def __contains__(self, key: Any) -> bool:
        return key in self._tree

    def __len__(self) -> int:
        return len(self._tree)

    def __iter__(self) -> "Iterator[Any]":
        return iter(self._tree)

    def get(self, key: Any, default: Any = None) -> Any:
        """The child of a key, or the default."""
        try:
            return self._tree[key]
        except (KeyError, IndexError):
            return default

    def keys(self) -> Any:
        """The keys of a dict."""
        return self._tree.keys()

    def values(self) -> Any:
        """The children of a dict."""
        return self._tree.values()

    def items(self) -> Any:
        """The keys and children of a dict."""
        return self._tree.items()

    def __repr__(self) -> str:
        return (
            f"TreeMetadata(\n  custom_metadata={self._custom_metadata}\n  tree={self._tree}\n"
            f"  use_zarr3={self._use_zarr3}\n)"
        )


def _make_node() -> None:
    """Tells JAX's registry of TreeMetadata, when the first one is made."""
    if TreeMetadata._is_node:
        return
    import jax

    def children(node: TreeMetadata) -> Any:
        if isinstance(node.tree, dict):
            keys = list(node.tree)
            pairs = [(jax.tree_util.DictKey(key), node.tree[key]) for key in keys]
            return pairs, (dict, keys, node.custom_metadata, node.use_zarr3)
        if isinstance(node.tree, list | tuple):
            pairs = [(jax.tree_util.SequenceKey(i), child) for i, child in enumerate(node.tree)]
            return pairs, (type(node.tree), None, node.custom_metadata, node.use_zarr3)
        leaf = jax.tree_util.GetAttrKey("tree")
        return [(leaf, node.tree)], (object, None, node.custom_metadata, node.use_zarr3)

    def make(described: Any, values: Any) -> TreeMetadata:
        kind, keys, custom_metadata, use_zarr3 = described
        if kind is dict:
            tree: Any = dict(zip(keys, values, strict=True))
        elif kind is object:
            (tree,) = values
        else:
            tree = kind(*values) if hasattr(kind, "_fields") else kind(values)
        return TreeMetadata(tree=tree, custom_metadata=custom_metadata, use_zarr3=use_zarr3)

    TreeMetadata._is_node = True
    # The description is compared when two trees are: it must be hashable, so it is an object.
    jax.tree_util.register_pytree_with_keys(
        TreeMetadata, lambda node: _described(children(node)), lambda d, v: make(d.value, list(v))
    )


class _Description:
    """Equal descriptions make equal structures."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Description) and self.value == other.value

    def __hash__(self) -> int:
        return 0


def _described(found: Any) -> Any:
    pairs, value = found
    return pairs, _Description(value)


def write_shapes(stored: StoredTree) -> "dict[tuple[str, ...], tuple[int, ...] | None]":
    """The shapes of the pieces that one process wrote, by path; None where it is not known."""
    shapes = {}
    for entry in (stored.tree_metadata().get("tree_metadata") or {}).values():
        path = tuple(str(part["key"]) for part in entry["key_metadata"])
        shape = (entry.get("value_metadata") or {}).get("write_shape")
        shapes[path] = None if shape is None else tuple(shape)
    return shapes


def leaf_metadata(
    stored: StoredTree, index: int, typestr: "str | None" = None, write_shape: Any = None
) -> Any:
    """The metadata of a leaf, as of a type (None: the stored one)."""
    leaf = leaf_description(stored, index, typestr)
    if type(leaf) is ArrayMetadata:
        leaf.storage = StorageMetadata(
            chunk_shape=tuple(stored.infos[index].chunk_shape),
            write_shape=write_shape,
            zarr_metadata=from_native(stored.reader.zarr_metadata(index)),
        )
    return leaf


def leaf_description(
    stored: StoredTree,
    index: int,
    typestr: "str | None" = None,
    sharding_of: "Callable[[str], Any]" = from_serialized_string,
) -> Any:
    """The metadata of a leaf without those of its storage.

    sharding_of: makes the sharding of its stored text.
    """
    info = stored.infos[index]
    if info.kind in ("empty", "placeholder"):
        return item_value(stored.reader, index)
    if info.kind == "string":
        return StringMetadata(info.name, stored.directory)
    if info.kind == "unknown":
        stored.reader.read([index])  # raises what is wrong with its files
    dtype = numpy_dtype(info.dtype)
    if (typestr or info.typestr) == "scalar":
        return ScalarMetadata(info.name, stored.directory, dtype=dtype)
    return ArrayMetadata(
        info.name,
        stored.directory,
        shape=tuple(info.shape),
        sharding=sharding_of(info.sharding) if info.sharding else None,
        dtype=dtype,
    )
