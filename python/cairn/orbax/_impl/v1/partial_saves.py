"""Saves of one tree in several parts, and the checkpoint that is made of them.

The parts of "path" lie in "path.partial_save". Orbax makes a checkpoint of them, too.
"""

import contextlib
import dataclasses
import os
import time
import uuid
from collections.abc import Awaitable
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.base import asyncs
from cairn.orbax._impl.handlers.base_pytree_handler import (
    BasePyTreeCheckpointHandler,
    PartialSaveReplacementError,
)
from cairn.orbax._impl.paths.checkpoint_paths import TREE_METADATA_FILE, is_finalized
from cairn.orbax._impl.paths.store_path import is_store_url
from cairn.orbax._impl.stored.step_metadata import read_json, read_step_metadata
from cairn.orbax._impl.stored.stored_tree import StoredTree
from cairn.orbax._impl.trees import pytrees
from cairn.orbax._impl.v1 import saving
from cairn.orbax._impl.v1.context import Context, get_context
from cairn.orbax._impl.v1.given_paths import given_path
from cairn.orbax._impl.v1.handlers.handler_types import PathAwaitingCreation
from cairn.orbax._impl.v1.handlers.leaf_types import check_state
from cairn.orbax._impl.v1.handlers.pytree_handler import PyTreeHandler
from cairn.orbax._impl.v1.names import STATE
from cairn.orbax._impl.v1.responses import AsyncResponse, Background

_SUFFIX = ".partial_save"


@dataclasses.dataclass
class _Part:
    """A tree whose files are not merged yet."""

    state: Any

    async def save(self, directory: PathAwaitingCreation) -> "Awaitable[None]":
        """Saves the tree."""
        return await PyTreeHandler(partial_save_mode=True).save(directory, self.state)

    async def load(self, directory: Any) -> "Awaitable[None]":
        """Raises NotImplementedError: finalize() makes a checkpoint of the parts."""
        raise NotImplementedError(f"{directory} is a part of a checkpoint: call finalize() first")


def save(path: Any, state: Any, *, custom_metadata: Any = None) -> None:
    """Saves a part of the tree that will be at the path after finalize().

    Raises:
      FileExistsError: the path exists.
      PartialSaveReplacementError: another part has a leaf of this one, or one above or below it.
    """
    _begin(path, state, custom_metadata)()


def save_async(path: Any, state: Any, *, custom_metadata: Any = None) -> "AsyncResponse[None]":
    """Like save(), but returns once all data that the caller may change is copied."""
    return Background(_begin(path, state, custom_metadata), "cairn-orbax-save")


def _begin(path: Any, state: Any, custom_metadata: Any) -> Any:
    check_state(state)
    context = get_context()
    final, parts = _paths(context, path)
    _check_absent(final)
    _check_new(parts, state)
    os.makedirs(parts, exist_ok=True)
    target = parts / f"{parts.name}.pending_{time.time_ns()}_{uuid.uuid4().hex}"
    return saving.begin(context, target, {STATE: _Part(state)}, False, custom_metadata)


def _paths(context: Context, path: Any) -> "tuple[Any, Any]":
    """The path of the checkpoint, and that of its parts, for either of them."""
    path = given_path(context, path)
    if is_store_url(path):  # as in Orbax
        raise ValueError(f"{path}: partial saves need a local directory; save the whole tree")
    final = path.parent / path.name.removesuffix(_SUFFIX)
    return final, final.parent / (final.name + _SUFFIX)


def _pending(parts: Any) -> "list[Any]":
    """The complete parts, the oldest first."""
    found = [one for one in parts.iterdir() if ".pending_" in one.name and is_finalized(one)]
    return sorted(found, key=lambda one: one.name)


def _check_new(parts: Any, state: Any) -> None:
    paths, _, _ = pytrees.flatten(state)
    for part in _pending(parts) if parts.exists() else []:
        stored = read_json(part / STATE / TREE_METADATA_FILE) or {}
        for entry in stored["tree_metadata"].values():
            known = tuple(str(key["key"]) for key in entry["key_metadata"])
            for path in paths:
                shared = min(len(path), len(known))
                if path[:shared] == known[:shared]:
                    raise PartialSaveReplacementError(
                        f"{pytrees.dotted(path)} is in the part {part}; "
                        "Partial saving currently does not support REPLACEMENT."
                    )


def _check_absent(final: Any) -> None:
    if final.exists():
        raise FileExistsError(f"{final} exists: nothing can be added to it")


def finalize(path: Any) -> None:
    """Makes a checkpoint of the parts at the path.

    Reads all parts into memory. The checkpoint appears complete or not at all, and the parts stay
    until it is durable. Anything else that lies beside the parts stays.

    Raises:
      FileExistsError: the path exists.
      FileNotFoundError: there are no parts.
    """
    context = get_context()
    final, parts = _paths(context, path)
    _check_absent(final)
    if not parts.exists():
        raise FileNotFoundError(f"{parts}: there are no parts")
    pending = _pending(parts)
    if not pending:
        raise FileNotFoundError(f"{parts}: there are no complete parts")
    tree: Any = {}
    custom: dict[str, Any] = {}
    for part in pending:
        tree = _merged(tree, _load(part / STATE))
        custom.update(read_step_metadata(part).custom_metadata)
    own = Context(context)
    described = StoredTree(pending[0] / STATE).tree_metadata()
    own.array.saving.use_ocdbt = bool(described.get("use_ocdbt", True))
    own.array.saving.use_zarr3 = bool(described.get("use_zarr3", False))
    saving.begin(own, final, {STATE: tree}, False, custom)()
    for part in pending:
        _cairn.remove_checkpoint(os.fspath(part))
    # Fails if a part has come meanwhile, or if somebody else has put something there.
    with contextlib.suppress(OSError):
        os.rmdir(parts)


def _load(directory: Any) -> Any:
    if any(one.name.startswith("ocdbt.process_") for one in directory.iterdir()):
        BasePyTreeCheckpointHandler().finalize(directory)

    async def load() -> Any:
        return await (await PyTreeHandler().load(directory))

    return asyncs.run(load())


def _merged(older: Any, newer: Any) -> Any:
    if not isinstance(older, dict) or not isinstance(newer, dict):
        return newer
    return {
        key: _merged(older.get(key, {}), newer[key]) if key in newer else older[key]
        for key in [*older, *(key for key in newer if key not in older)]
    }
