"""StandardCheckpointHandler: trees of arrays and numbers, restored as they were placed."""

import dataclasses
import functools
import numbers
from collections.abc import Callable
from typing import Any

from cairn.orbax._impl.base import options
from cairn.orbax._impl.handlers.args import CheckpointArgs, register_with_handler
from cairn.orbax._impl.handlers.as_placed import AsPlaced, stored_sharding
from cairn.orbax._impl.handlers.handler import NativeHandler
from cairn.orbax._impl.handlers.pytree_handler import (
    PyTreeCheckpointHandler,
    PyTreeRestoreArgs,
    PyTreeSaveArgs,
)
from cairn.orbax._impl.leaves import restore_args as construction
from cairn.orbax._impl.leaves.tree_metadata import TreeMetadata
from cairn.orbax._impl.trees import pytrees

_ORBAX = "orbax.checkpoint._src.handlers.standard_checkpoint_handler"


def _is_standard(leaf: Any) -> bool:
    import jax
    import numpy as np

    return isinstance(leaf, int | float | np.ndarray | jax.Array)


class StandardCheckpointHandler(NativeHandler):
    """Saves and restores a tree whose leaves are arrays and numbers."""

    _typestr = f"{_ORBAX}.StandardCheckpointHandler"

    def __init__(
        self,
        *,
        save_concurrent_gb: int = 96,
        restore_concurrent_gb: int = 96,
        multiprocessing_options: "options.MultiprocessingOptions | None" = None,
        pytree_metadata_options: Any = None,
        use_ocdbt: bool = True,
    ) -> None:
        self._impl = PyTreeCheckpointHandler(
            save_concurrent_gb=save_concurrent_gb,
            restore_concurrent_gb=restore_concurrent_gb,
            multiprocessing_options=multiprocessing_options,
            pytree_metadata_options=pytree_metadata_options,
            use_ocdbt=use_ocdbt,
        )

    async def async_save(
        self, directory: Any, item: Any = None, save_args: Any = None, args: Any = None
    ) -> "list[Any]":
        """Copies the arrays of a tree and starts to write them.

        Raises ValueError for other leaves, a single array, and None.
        """
        if isinstance(item, CheckpointArgs):
            raise ValueError("give the arguments of a save as args=...")
        if args is None:
            args = StandardSaveArgs(item, save_args)
        checked = _checked(args.item, args.save_args)
        return await self._impl.async_save(
            directory,
            args=PyTreeSaveArgs(
                checked, save_args=args.save_args, custom_metadata=args.custom_metadata
            ),
        )

    def restore(self, directory: Any, item: Any = None, args: Any = None) -> Any:
        """Restores a tree like the target; without one, as and where it was saved.

        Raises ValueError if the stored placement is needed and its devices are not here.
        """
        if isinstance(item, CheckpointArgs):
            raise ValueError("give the arguments of a restore as args=...")
        if args is None:
            args = StandardRestoreArgs(item=item)
        restore_args = _restore_args(args, functools.partial(self.metadata, directory))
        return self._impl.restore(
            directory, args=PyTreeRestoreArgs(item=args.item, restore_args=restore_args)
        )

    def metadata(self, directory: Any) -> TreeMetadata:
        """The tree with metadata in place of its values."""
        return self._impl.metadata(directory)

    def finalize(self, directory: Any) -> None:
        """Ends the write."""
        self._impl.finalize(directory)

    def close(self) -> None:
        """Waits for writes."""
        self._impl.close()


def _checked(item: Any, save_args: Any) -> Any:
    """The tree with arrays of NumPy in place of what can become one."""
    import jax
    import numpy as np

    if item is None:
        raise ValueError("Must provide item to save.")
    if isinstance(item, jax.Array | numbers.Number):
        raise ValueError(
            "StandardSave does not support single arrays or scalars. Use ArrayCheckpointHandler / "
            "ArraySave instead"
        )
    for path, args in pytrees.by_path(save_args).items():
        if getattr(args, "aggregate", False):
            raise ValueError(f"Unsupported option `aggregate` for key: {path}.")
    paths, leaves, treedef = pytrees.flatten(item, None)
    checked = []
    for path, leaf in zip(paths, leaves, strict=True):
        if not isinstance(leaf, np.ndarray | jax.Array) and hasattr(leaf, "__array__"):
            leaf = np.asarray(leaf)
        if not _is_standard(leaf):
            raise ValueError(f"Unsupported type: {type(leaf)} for key: {path}.")
        checked.append(leaf)
    return treedef.unflatten(checked)


def _restore_args(args: Any, metadata: "Callable[[], TreeMetadata]") -> Any:
    """The arguments for each leaf of the target, or of the stored tree.

    The metadata are read only if the target does not say all.
    """
    import jax
    import numpy as np

    if args.item is None:
        return AsPlaced(args.fallback_sharding, args.strict)
    leaves, treedef = jax.tree_util.tree_flatten(args.item)
    paths: list[pytrees.Path] | None = None
    stored: dict[Any, Any] | None = None
    shardings: list[Any] = []
    for at, leaf in enumerate(leaves):
        if type(leaf) is np.ndarray:
            shardings.append(None)
            continue
        if not _is_standard(leaf) and not isinstance(leaf, jax.ShapeDtypeStruct):
            path = pytrees.flatten(args.item, None)[0][at]
            raise ValueError(f"Unsupported type: {type(leaf)} for key: {path}.")
        sharding = construction.sharding_of(leaf, args.support_layout)
        if sharding is None and hasattr(leaf, "sharding"):
            if stored is None or paths is None:
                stored = pytrees.by_path(metadata().tree)
                paths = pytrees.flatten(args.item, None)[0]
            path = paths[at]
            if path not in stored:
                raise ValueError(
                    f"Structure mismatch: Target path {path} not found in the checkpoint, which "
                    f"has {list(stored)}"
                )
            sharding = stored_sharding(stored[path], args.fallback_sharding)
        shardings.append(sharding)
    shared: dict[Any, Any] = {}  # of arrays of NumPy, by their type
    made = []
    for leaf, sharding in zip(leaves, shardings, strict=True):
        dtype = leaf.dtype if type(leaf) is np.ndarray else None
        one = None if dtype is None else shared.get(dtype)
        if one is None:
            one = construction.leaf_restore_args(leaf, sharding, strict=args.strict)
            if dtype is not None:
                shared[dtype] = one
        made.append(one)
    return treedef.unflatten(made)  # type: ignore[attr-defined]


@register_with_handler(StandardCheckpointHandler, for_save=True)
@dataclasses.dataclass
class StandardSaveArgs(CheckpointArgs):
    """A tree of arrays and numbers to be saved, with SaveArgs for its leaves."""

    item: Any
    save_args: Any = None
    custom_metadata: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.item, TreeMetadata):
            raise ValueError("Cannot save TreeMetadata.")


@register_with_handler(StandardCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class StandardRestoreArgs(CheckpointArgs):
    """How a tree is restored.

    item: the target; None for the stored tree. strict=False: arrays are cut and padded to the
    target's shapes. support_layout: they get the target's layouts in the devices' memory, too.
    fallback_sharding: for arrays whose stored placement is not possible here.
    """

    item: Any = None
    strict: bool = True
    support_layout: bool = False
    fallback_sharding: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.item, TreeMetadata):
            self.item = self.item.tree
