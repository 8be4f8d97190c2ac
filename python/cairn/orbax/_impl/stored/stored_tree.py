"""An opened tree: its leaves by path, and its metadata."""

import functools
from collections.abc import Iterator
from typing import Any

from cairn._leaves import item_value
from cairn.orbax._impl.paths.checkpoint_paths import OCDBT_MANIFEST, TREE_METADATA_FILE, as_path
from cairn.orbax._impl.paths.text_files import load_json
from cairn.orbax._impl.stored.native_reads import DamagedDataError, NativeReader
from cairn.orbax._impl.stored.step_metadata import read_json
from cairn.orbax._impl.trees.pytrees import Path

ARRAY_METADATA_FOLDER = "array_metadatas"
AGGREGATE_FILE = "checkpoint"  # the msgpack file of checkpoints of old versions
PLACEHOLDER_PREFIX = "PLACEHOLDER://"  # what that file has for a leaf that is stored elsewhere


def has_structure(directory: Any, aggregate_filename: str = AGGREGATE_FILE) -> bool:
    """Whether a directory has a file that says what tree it holds."""
    files = (TREE_METADATA_FILE, aggregate_filename)
    return any((as_path(directory) / name).exists() for name in files if name)


def is_ocdbt_checkpoint(path: Any) -> bool:
    """Whether the arrays of a directory are in a database."""
    return bool((as_path(path) / OCDBT_MANIFEST).exists())


def values_in_file(directory: Any, aggregate_filename: str = AGGREGATE_FILE) -> "set[Path]":
    """The leaves whose values the msgpack file of a tree has; empty without such a file."""
    file = as_path(directory) / aggregate_filename
    if not file.is_file():
        return set()
    reader: Any = NativeReader(file)

    def is_value(index: int, info: Any) -> bool:
        if info.kind == "string":
            return not str(item_value(reader, index)).startswith(PLACEHOLDER_PREFIX)
        return str(info.kind) != "empty"

    found = enumerate(reader.tensors())
    return {tuple(map(str, info.path)) for index, info in found if is_value(index, info)}


def _has_arrays(directory: Any) -> bool:
    """Whether a directory itself, not one of its items, has arrays: in a database or one each."""
    if is_ocdbt_checkpoint(directory):
        return True
    files = (".zarray", "zarr.json")
    return any((child / name).exists() for child in directory.iterdir() for name in files)


def keeps_array_metadata(handler: Any) -> bool:
    """Whether a handler of arrays writes array_metadatas, and finds types of keys there."""
    return getattr(handler, "_array_metadata_store", None) is not None


class StoredTree:
    """The files of one tree. Nothing but metadata is read before read()."""

    def __init__(
        self,
        directory: Any,
        memory: "int | None" = None,
        registry: Any = None,
        needs_structure: bool = True,
        aggregate_filename: str = AGGREGATE_FILE,
    ) -> None:
        """Opens the tree.

        Args:
          directory: of the tree.
          memory: how many bytes are read at a time; None: no limit.
          registry: of the types of leaves; None: those of the native part.
          needs_structure: False: the files of the arrays are enough.
          aggregate_filename: the name of the msgpack file of old versions; "": it is not read.

        Raises FileNotFoundError if there is no directory, or no structure.
        """
        self.registry = registry
        self._are_array_metadata_checked = False
        self.directory = as_path(directory)
        if not self.directory.exists():
            raise FileNotFoundError(
                f"Requested directory for restore does not exist at {self.directory}."
            )
        self.memory = memory
        self.aggregate_filename = aggregate_filename
        if not has_structure(self.directory, aggregate_filename) and (
            needs_structure or not _has_arrays(self.directory)
        ):
            raise FileNotFoundError(
                f"No structure could be identified for the checkpoint at {self.directory}: it has "
                f"no {TREE_METADATA_FILE}"
            )
        self.reader: Any = NativeReader(self.directory, memory, aggregate_filename)
        # (kind, typestr, dtype) of each leaf; equal ones are one object.
        self.types: list[tuple[str, str, str]] = self.reader.leaf_types()

    @functools.cached_property
    def infos(self) -> "list[Any]":
        """The metadata of each leaf. Built at its first use: it takes time for many leaves."""
        found: list[Any] = self.reader.tensors()
        return found

    @functools.cached_property
    def by_path(self) -> "dict[Path, int]":
        """The numbers of the leaves."""
        paths, _ = self.reader.leaf_paths()
        return {path: index for index, path in enumerate(paths)}

    def structure(self) -> Any:
        """Nested containers with the number of the leaf in place of each."""
        return self.reader.structure()

    @functools.cached_property
    def _by_name(self) -> "dict[str, int]":
        return {info.name: index for index, info in enumerate(self.infos)}

    def index(self, name: str) -> int:
        """The number of a leaf by its keys, joined with dots. Raises KeyError."""
        if name not in self._by_name:
            raise KeyError(f"has no leaf {name!r}")
        return self._by_name[name]

    @functools.cached_property
    def keeps_array_metadata(self) -> bool:
        """Whether random keys are restored as such, not as their data."""
        import jax

        if self.registry is None or not self.registry.has(jax.Array):
            return True
        return keeps_array_metadata(self.registry.get(jax.Array))

    def random_key_impl(self, index: int) -> str:
        """The algorithm of a random key; "" for other arrays.

        Raises DamagedDataError if the files that would say so are damaged.
        """
        found: str = self._random_keys.get(index, "")
        if not found and self.types[index][2] == "uint32":  # as the data of keys are
            self._check_array_metadata()
        return found

    @functools.cached_property
    def _random_keys(self) -> "dict[int, str]":
        found: dict[int, str] = self.reader.random_keys()
        return found

    def _check_array_metadata(self) -> None:
        if self._are_array_metadata_checked:
            return
        folder = self.directory / ARRAY_METADATA_FOLDER
        for file in folder.iterdir() if folder.is_dir() else ():
            try:
                load_json(file)
            except ValueError as error:
                raise DamagedDataError(str(error)) from error
        self._are_array_metadata_checked = True

    def is_empty(self, index: int) -> bool:
        """Whether a leaf is None or an empty container."""
        return self.types[index][0] == "empty"

    def tree_metadata(self) -> "dict[str, Any]":
        """Returns the content of the structure file."""
        return self._described

    @functools.cached_property
    def _described(self) -> "dict[str, Any]":
        return read_json(self.directory / TREE_METADATA_FILE) or {}

    @functools.cached_property
    def has_database(self) -> bool:
        """Whether there is an OCDBT database."""
        return is_ocdbt_checkpoint(self.directory)

    @property
    def uses_zarr3(self) -> bool:
        """Whether the arrays are Zarr v3."""
        return bool(self.tree_metadata().get("use_zarr3"))


def fill(structure: Any, values: "dict[int, Any] | list[Any]") -> Any:
    """The structure with the values of its leaves, of any depth: Python limits recursion."""
    if isinstance(structure, int):
        return values[structure]
    opened = [_opened(structure)]
    while True:
        node, rest, made = opened[-1]
        for child in rest:
            if isinstance(child, int):
                made.append(values[child])
                continue
            opened.append(_opened(child))
            break
        else:
            opened.pop()
            whole = _with_children(node, made)
            if not opened:
                return whole
            opened[-1][2].append(whole)


def _opened(node: Any) -> "tuple[Any, Iterator[Any], list[Any]]":
    """A node, its children, and a list for what replaces them."""
    return node, iter(node.values() if isinstance(node, dict) else node), []


def _with_children(node: Any, children: "list[Any]") -> Any:
    if isinstance(node, dict):
        return dict(zip(node, children, strict=True))
    if hasattr(node, "_fields"):
        return type(node)(*children)
    return children if isinstance(node, list) else tuple(children)
