"""CompositeCheckpointHandler: several items, each in a directory of its own."""

import asyncio
import contextlib
import dataclasses
import time
import warnings
from typing import Any

from cairn.orbax._impl.base import monitoring, options

# A step names the handlers of its items: all of them register, whatever the program has imported.
from cairn.orbax._impl.handlers import (  # noqa: F401
    array_handler,
    json_handler,
    pytree_handler,
    standard_handler,
)
from cairn.orbax._impl.handlers.args import (
    AsyncWrapperArgs,
    CheckpointArgs,
    WrapperArgs,
    get_registered_args_cls,
    get_registered_handler_cls,
    handler_of_typestr,
    has_registered_args,
    register_with_handler,
    wrapped,
)
from cairn.orbax._impl.handlers.composite import Composite, check_item_names
from cairn.orbax._impl.handlers.handler import AsyncCheckpointHandler, NativeHandler
from cairn.orbax._impl.handlers.registry import DefaultCheckpointHandlerRegistry
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.paths.permissions import make, mode_of
from cairn.orbax._impl.stored.atomicity import Atomicity, mark_item
from cairn.orbax._impl.stored.step_metadata import StepMetadata, read_step_metadata

_ORBAX = "orbax.checkpoint._src.handlers.composite_checkpoint_handler"


@dataclasses.dataclass
class CompositeOptions:
    """Options of CompositeCheckpointHandler. The checkpointer completes its items."""

    multiprocessing_options: options.MultiprocessingOptions = dataclasses.field(
        default_factory=options.MultiprocessingOptions
    )
    temporary_path_class: Any = None
    file_options: "options.FileOptions | None" = None
    atomicity_options: "options.AtomicityOptions | None" = None
    async_options: "options.AsyncOptions | None" = None

    def __post_init__(self) -> None:
        Atomicity(chosen=self.temporary_path_class)  # raises for a class that is not known


class CompositeCheckpointHandler(NativeHandler):
    """Saves and restores several items with a handler for each.

    The handlers come from item_names (found by the arguments of the first save or restore),
    keyword arguments, or a registry.
    """

    _typestr = f"{_ORBAX}.CompositeCheckpointHandler"

    def __init__(
        self,
        *item_names: str,
        composite_options: "CompositeOptions | None" = None,
        handler_registry: Any = None,
        **items_and_handlers: Any,
    ) -> None:
        # Nothing else of them can matter here: the checkpointer completes the items.
        self._mode = mode_of(getattr(composite_options, "file_options", None))
        if handler_registry is not None and (items_and_handlers or item_names):
            raise ValueError(
                "give handler_registry, or item_names and items_and_handlers; not both"
            )
        # A copy: entries are added as items are met.
        self._registry = DefaultCheckpointHandlerRegistry(handler_registry)
        self._fixed = bool(item_names or items_and_handlers)
        self._open = {name for name in item_names if name not in items_and_handlers}
        self._registered = {item for item, _ in self._registry.get_all_entries()}
        self._written: dict[str, Any] = {}
        for name, handler in items_and_handlers.items():
            if handler is None:
                self._open.add(name)
            elif has_registered_args(handler):
                self._add(name, handler)
            else:
                handler = wrapped(handler)
                kind = (
                    AsyncWrapperArgs if isinstance(handler, AsyncCheckpointHandler) else WrapperArgs
                )
                self._registry.add(name, kind, handler)

    def _add(self, item: str, handler: Any) -> None:
        save, restore = get_registered_args_cls(handler)
        self._registry.add(item, save, handler)
        if restore is not save:
            self._registry.add(item, restore, handler)

    def handlers(self) -> "dict[str, Any]":
        """The handlers of the items that have one, in the order in which they were added."""
        return {
            item: handler
            for (item, _), handler in self._registry.get_all_entries().items()
            if item is not None
        }

    def handler_for(self, item: str, args: Any) -> Any:
        """The handler of an item for arguments (None: the one that it has).

        Raises ValueError if there is none, and for arguments of another handler.
        """
        if args is None:
            if item in self.handlers():
                return self.handlers()[item]
            raise ValueError(
                f"item '{item}': no arguments are given, and no handler is known; give an object "
                "of CheckpointArgs, or the handler when this one is made"
            )
        if self._registry.has(item, args):
            return self._registry.get(item, args)
        if self._registry.has(None, args):
            handler = self._registry.get(None, args)
            self._registry.add(item, args, handler)
            return handler
        handler = get_registered_handler_cls(args)()
        known = item in self._open if self._fixed else item not in self._registered
        if not known:
            raise ValueError(
                f"item '{item}': {type(args)} does not match with any registered handler: "
                f"{self._registry.get_all_entries()}"
            )
        self._open.discard(item)
        self._registered.add(item)
        self._add(item, handler)
        return handler

    async def async_save(self, directory: Any, args: Any = None) -> "list[Any]":
        """Saves the items of a Composite into directories of their names."""
        check_item_names(args.keys())
        self._written = {}
        operations, futures = [], []
        made, saved = 0.0, None
        for item in sorted(args.keys()):
            handler = self.handler_for(item, args[item])
            path = as_path(directory) / item
            begin = time.time()
            make(path, self._mode)
            made += time.time() - begin
            self._written[item] = path
            if isinstance(handler, AsyncCheckpointHandler):
                operations.append(handler.async_save(path, args=args[item]))
            else:
                # In another thread: the handler may run an event loop of its own.
                begin = time.time()
                await asyncio.to_thread(handler.save, path, args=args[item])
                saved = (saved or 0.0) + time.time() - begin
        monitoring.item_directories_made(made)
        if saved is not None:
            monitoring.items_written_at_once(saved)
        for result in await asyncio.gather(*operations):
            futures.extend(result or [])
        return futures

    def finalize(self, directory: Any) -> None:
        """Lets the handlers finish the items that were saved. ValueError if none were."""
        if not self._written:
            raise ValueError("finalize() before any item was saved")
        handlers = self.handlers()
        for item in list(self._written):
            begin = time.time()
            path = self._written.pop(item)
            handlers[item].finalize(path)
            mark_item(path)
            monitoring.item_finalized(time.time() - begin)

    def item_typestrs(self, items: Any) -> "dict[str, str]":
        """What the metadata of a step records of its items."""
        handlers = self.handlers()
        return {item: handlers[item].typestr() for item in items}

    def written_items(self) -> "list[str]":
        """The items of the save that goes on."""
        return list(self._written)

    def restore(self, directory: Any, args: Any = None) -> Any:
        """Restores the items that the arguments name; all if they name none.

        Raises KeyError for an item that is not stored, ValueError for one of an unknown handler.
        """
        directory = as_path(directory)
        existing = _items(directory)
        wanted = dict(args.items()) if args is not None else {}
        if not wanted:
            _warn_of_missing(directory, existing)
            wanted = {item: self._default_args(directory, item) for item in existing}
        restored = {}
        for item in sorted(wanted):
            if item not in existing:
                raise KeyError(
                    f"Item '{item}' was not found in the checkpoint {directory}; "
                    f"it has the items {existing}"
                )
            handler = self.handler_for(item, wanted[item])
            restored[item] = handler.restore(directory / item, args=wanted[item])
        return CompositeArgs(**restored)

    def _default_args(self, directory: Any, item: str) -> Any:
        handler = self.handlers().get(item)
        if handler is None and item not in self._open:
            stored = read_step_metadata(directory).item_handlers
            with contextlib.suppress(KeyError):
                handler = handler_of_typestr(stored[item] if isinstance(stored, dict) else None)
        if handler is None:
            raise ValueError(
                f"{directory}: item '{item}' could not be restored: no handler is known; give its "
                "arguments to restore(), or a CheckpointHandlerRegistry"
            )
        _, restore = get_registered_args_cls(handler)
        try:
            return restore()
        except TypeError as error:
            raise ValueError(
                f"{directory}: item '{item}' cannot be restored without arguments: {error}"
            ) from error

    def metadata(self, directory: Any) -> StepMetadata:
        """The metadata of the step, with that of each item whose handler is known."""
        directory = as_path(directory)
        if not directory.exists():
            raise FileNotFoundError(f"Directory does not exist: {directory}")
        step = read_step_metadata(directory)
        if step.item_handlers is not None and not isinstance(step.item_handlers, dict):
            raise ValueError(
                f"{directory}: the checkpoint is of one item, by {step.item_handlers}; "
                "it was not saved with several"
            )
        typestrs: dict[str, Any] = dict(step.item_handlers or {})
        handlers = self.handlers()
        found: dict[str, Any] = {}
        for item in _items(directory):
            handler = handlers.get(item)
            found[item] = None
            if handler is None:
                typestrs.setdefault(item, None)
                continue
            if typestrs.get(item) is None:
                typestrs[item] = handler.typestr()
            with contextlib.suppress(FileNotFoundError, NotImplementedError):  # as far as is known
                found[item] = handler.metadata(directory / item)
        return dataclasses.replace(step, item_handlers=typestrs, item_metadata=Composite(**found))

    def metadata_from_temporary_paths(self, directory: Any) -> StepMetadata:
        """The metadata of the step that is being saved, with the names of its items' handlers."""
        directory = as_path(directory)
        if not directory.exists():
            raise FileNotFoundError(f"Directory does not exist: {directory}")
        step = read_step_metadata(directory)
        written = self.written_items()
        return dataclasses.replace(
            step,
            item_handlers=self.item_typestrs(written),
            item_metadata=Composite(**dict.fromkeys(written)),
        )

    def close(self) -> None:
        """Closes the handlers."""
        for handler in self.handlers().values():
            handler.close()


def _items(directory: Any) -> "list[str]":
    return [path.name for path in directory.iterdir() if path.is_dir()]


def _warn_of_missing(directory: Any, existing: "list[str]") -> None:
    """Warns of items that the checkpoint records and lacks. Orbax restores the others silently."""
    recorded: Any = None
    with contextlib.suppress(OSError, ValueError):  # as if there were none
        recorded = read_step_metadata(directory).item_handlers
    for item in recorded if isinstance(recorded, dict) else ():
        if item not in existing:
            warnings.warn(
                f"{directory}: item '{item}' is recorded, but there is no folder of that name; "
                "the others are restored",
                stacklevel=5,
            )


@register_with_handler(CompositeCheckpointHandler, for_save=True, for_restore=True)
class CompositeArgs(Composite, CheckpointArgs):
    """The arguments of several items, and what a restore of them returns."""
