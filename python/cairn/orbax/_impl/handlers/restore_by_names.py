"""Restores arrays without any file that says what tree they are, into a target."""

from typing import Any

from cairn.orbax._impl.handlers.pytree_restore import read_leaves
from cairn.orbax._impl.leaves.leaf_args import RestoreArgs
from cairn.orbax._impl.leaves.matching_args import arguments_like
from cairn.orbax._impl.paths.checkpoint_paths import STRINGS_FILE
from cairn.orbax._impl.paths.text_files import load_json
from cairn.orbax._impl.stored.stored_tree import StoredTree
from cairn.orbax._impl.trees import pytrees
from cairn.orbax._impl.trees.pytrees import Path


def restore_by_names(stored: StoredTree, target: Any, given: Any) -> Any:
    """The leaves of the target, each read by its name: its keys, joined with dots.

    No type is stored: a leaf becomes what its RestoreArgs say, else an array of NumPy. None and
    empty containers stay.

    Raises:
      ValueError: a database has no such array; the RestoreArgs do not fit.
      FileNotFoundError: there is no directory of such an array.
    """
    restore_args = arguments_like(target, given)
    paths, leaves, treedef = pytrees.flatten(target)
    strings = _Strings(stored)
    found: dict[Path, Any] = {}
    indices: dict[Path, int] = {}
    wanted: dict[int, RestoreArgs] = {}
    for path, leaf in zip(paths, leaves, strict=True):
        if pytrees.is_empty(leaf):
            found[path] = leaf
            continue
        args = restore_args.get(path) or RestoreArgs()
        is_string = isinstance(args.restore_type, type) and issubclass(args.restore_type, str)
        if is_string:
            found[path] = strings.get(".".join(path))
        else:
            indices[path] = index_of(stored, path)
            wanted[indices[path]] = args
    values = read_leaves(stored, wanted)
    found.update((path, values[index]) for path, index in indices.items())
    return treedef.unflatten([found[path] for path in paths])


def index_of(stored: StoredTree, path: Path) -> int:
    name = ".".join(path)
    try:
        return stored.index(name)
    except KeyError:
        if stored.has_database:
            raise ValueError(
                f"NOT_FOUND: {stored.directory} has no array {name!r}, which the target has"
            ) from None
        raise FileNotFoundError(
            f"{stored.directory / name}: there is no array, and the target has one"
        ) from None


class _Strings:
    """The file of strings, read when the first one is asked for."""

    def __init__(self, stored: StoredTree) -> None:
        self._path = stored.directory / STRINGS_FILE
        self._values: dict[str, str] | None = None

    def get(self, name: str) -> str:
        """The string of a leaf. Raises ValueError if it is not stored."""
        if self._values is None:
            if not self._path.exists():
                raise ValueError(f"NOT_FOUND: {self._path}: there are no strings")
            self._values = load_json(self._path)
        if name not in self._values:
            raise ValueError(f"NOT_FOUND: {self._path} has no string {name!r}")
        return self._values[name]
