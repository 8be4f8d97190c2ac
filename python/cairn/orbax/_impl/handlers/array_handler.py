"""Handlers of one array, and of random keys and states."""

import abc
import dataclasses
from typing import Any

from cairn.orbax._impl.handlers.args import CheckpointArgs, register_with_handler
from cairn.orbax._impl.handlers.base_pytree_handler import (
    BasePyTreeCheckpointHandler,
    BasePyTreeRestoreArgs,
    BasePyTreeSaveArgs,
)
from cairn.orbax._impl.handlers.handler import NativeHandler
from cairn.orbax._impl.handlers.json_handler import JsonCheckpointHandler, JsonSaveArgs
from cairn.orbax._impl.leaves.leaf_args import RestoreArgs, SaveArgs
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.paths.permissions import make
from cairn.orbax._impl.stored.atomicity import mark_item

_ORBAX = "orbax.checkpoint._src.handlers"


class ArrayCheckpointHandler(NativeHandler):
    """Saves and restores one array or number, without a database."""

    _typestr = f"{_ORBAX}.array_checkpoint_handler.ArrayCheckpointHandler"

    def __init__(self, checkpoint_name: "str | None" = None) -> None:
        self._name = checkpoint_name or "checkpoint"
        self._impl = BasePyTreeCheckpointHandler(use_ocdbt=False)

    async def async_save(
        self, directory: Any, item: Any = None, save_args: Any = None, args: Any = None
    ) -> "list[Any]":
        """Copies the array and starts to write it. Raises TypeError for anything else."""
        if args is not None:
            item, save_args = args.item, args.save_args
        import jax
        import numpy as np

        if not isinstance(item, np.ndarray | jax.Array | int | float | np.number):
            raise TypeError(f"Unsupported type: {type(item)}.")
        tree = BasePyTreeSaveArgs({self._name: item}, {self._name: save_args or SaveArgs()})
        return await self._impl.async_save(directory, args=tree)

    def restore(
        self, directory: Any, item: Any = None, restore_args: Any = None, args: Any = None
    ) -> Any:
        """The array."""
        chosen = (args.restore_args if args is not None else restore_args) or RestoreArgs()
        tree = BasePyTreeRestoreArgs(restore_args={self._name: chosen})
        return self._impl.restore(directory, args=tree)[self._name]

    def finalize(self, directory: Any) -> None:
        """Ends the write."""
        self._impl.finalize(directory)

    def close(self) -> None:
        """Waits for writes."""
        self._impl.close()


@register_with_handler(ArrayCheckpointHandler, for_save=True)
@dataclasses.dataclass
class ArraySaveArgs(CheckpointArgs):
    """An array or a number to be saved."""

    item: Any
    save_args: "SaveArgs | None" = None


@register_with_handler(ArrayCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class ArrayRestoreItemArgs(CheckpointArgs):
    """How the array is restored. item has no effect, as in Orbax."""

    item: Any = None
    restore_args: "RestoreArgs | None" = None


_NO_PARTS = (
    "cairn.orbax saves a random key in one piece: save() and restore() do it, and a class of "
    "CheckpointHandler can do it in another way"
)


class _RandomKeyHandler(NativeHandler):
    """A key in one directory, and what kind it is in another."""

    def __init__(self, name: str, handler: Any) -> None:
        self._name = name
        self._handler = handler
        self._json = JsonCheckpointHandler()

    @abc.abstractmethod
    def _described(self, args: Any) -> "tuple[Any, dict[str, Any]]":
        """The arguments that save the key, and its kind."""

    @abc.abstractmethod
    def _restored(self, directory: Any, args: Any, kind: Any) -> Any:
        """The key."""

    async def async_save(self, directory: Any, args: Any = None) -> "list[Any]":
        """Copies the key and starts to write it. Raises TypeError for anything else."""
        saved, kind = self._described(args)
        paths = [as_path(directory) / self._name, as_path(directory) / f"{self._name}_metadata"]
        for path in paths:
            make(path, None)
        futures = list(await self._handler.async_save(paths[0], args=saved))
        return futures + await self._json.async_save(paths[1], args=JsonSaveArgs(kind))

    def restore(self, directory: Any, args: Any = None) -> Any:
        """The key."""
        directory = as_path(directory)
        kind = self._json.restore(directory / f"{self._name}_metadata")
        return self._restored(directory / self._name, args, kind)

    def checkpoint_save_args(self, args: Any) -> Any:
        """Not available: raises NotImplementedError, as the two below."""
        raise NotImplementedError(_NO_PARTS)

    def checkpoint_restore_args(self, args: Any) -> Any:
        """Not available."""
        raise NotImplementedError(_NO_PARTS)

    def post_restore(self, item: Any, metadata: Any) -> Any:
        """Not available."""
        raise NotImplementedError(_NO_PARTS)

    def finalize(self, directory: Any) -> None:
        """Ends the write."""
        directory = as_path(directory)
        self._handler.finalize(directory / self._name)
        for name in (self._name, f"{self._name}_metadata"):
            mark_item(directory / name)

    def close(self) -> None:
        """Waits for writes."""
        self._handler.close()


class JaxRandomKeyCheckpointHandler(_RandomKeyHandler):
    """Saves and restores a random key of JAX: of jax.random.key() or of jax.random.PRNGKey()."""

    _typestr = f"{_ORBAX}.random_key_checkpoint_handler.JaxRandomKeyCheckpointHandler"

    def __init__(self, key_name: "str | None" = None) -> None:
        super().__init__(key_name or "jax_random_key", ArrayCheckpointHandler())

    def _described(self, args: Any) -> "tuple[Any, dict[str, Any]]":
        import jax

        if not isinstance(args.item, jax.Array):
            raise TypeError(f"Unsupported type: {type(args.item)}.")
        typed = bool(jax.dtypes.issubdtype(args.item.dtype, jax.dtypes.prng_key))  # type: ignore[attr-defined]
        data = jax.random.key_data(args.item)
        if typed:
            # The file does not name the generator: a restore takes JAX's default one.
            jax.random.wrap_key_data(data)
        return ArraySaveArgs(data, args.save_args), {"typed": typed}

    def _restored(self, directory: Any, args: Any, kind: Any) -> Any:
        import jax

        chosen = args.restore_args if args is not None else None
        data = self._handler.restore(directory, restore_args=chosen)
        return jax.random.wrap_key_data(jax.numpy.asarray(data)) if kind["typed"] else data


@register_with_handler(JaxRandomKeyCheckpointHandler, for_save=True)
@dataclasses.dataclass
class JaxRandomKeySaveArgs(CheckpointArgs):
    """A random key of JAX to be saved."""

    item: Any
    save_args: "SaveArgs | None" = None


@register_with_handler(JaxRandomKeyCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class JaxRandomKeyRestoreArgs(CheckpointArgs):
    """How the key's data is restored."""

    restore_args: "RestoreArgs | None" = None


class NumpyRandomKeyCheckpointHandler(_RandomKeyHandler):
    """Saves and restores what numpy.random.get_state() returns: a tuple, or a dict."""

    _typestr = f"{_ORBAX}.random_key_checkpoint_handler.NumpyRandomKeyCheckpointHandler"

    def __init__(self, key_name: "str | None" = None) -> None:
        super().__init__(key_name or "np_random_key", BasePyTreeCheckpointHandler())

    def _described(self, args: Any) -> "tuple[Any, dict[str, Any]]":
        if not isinstance(args.item, tuple | dict):
            raise TypeError(f"Unsupported type: {type(args.item)}.")
        return BasePyTreeSaveArgs(args.item), {"legacy": isinstance(args.item, tuple)}

    def _restored(self, directory: Any, args: Any, kind: Any) -> Any:
        state = self._handler.restore(directory)
        return tuple(state) if kind["legacy"] else state


@register_with_handler(NumpyRandomKeyCheckpointHandler, for_save=True)
@dataclasses.dataclass
class NumpyRandomKeySaveArgs(CheckpointArgs):
    """A state of NumPy's random generator to be saved."""

    item: Any


@register_with_handler(NumpyRandomKeyCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class NumpyRandomKeyRestoreArgs(CheckpointArgs):
    """There is nothing to choose."""
