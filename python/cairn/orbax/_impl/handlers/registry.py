"""Which handler an item of a composite checkpoint has."""

import inspect
from typing import Any

from cairn.orbax._impl.handlers.args import get_registered_args_cls, get_registered_handler_cls


class CheckpointHandlerRegistry:
    """The interface of a registry: add(), get(), has() and get_all_entries()."""

    def add(self, item: "str | None", args: Any, handler: Any = None) -> None:
        """Adds a handler of an item (None: of any item) for a class of arguments."""
        raise NotImplementedError

    def get(self, item: "str | None", args: Any) -> Any:
        """The handler; NoEntryError if there is none."""
        raise NotImplementedError

    def has(self, item: "str | None", args: Any) -> bool:
        """Whether there is a handler."""
        raise NotImplementedError

    def get_all_entries(self) -> "dict[Any, Any]":
        """Handlers by item and class of arguments."""
        raise NotImplementedError


class AlreadyExistsError(ValueError):
    """The item already has a handler for these arguments."""


class NoEntryError(KeyError):
    """The item has no handler for these arguments."""


def _class_of(args: Any) -> Any:
    return args if isinstance(args, type) else type(args)


class DefaultCheckpointHandlerRegistry(CheckpointHandlerRegistry):
    """A registry in memory; a copy of another one, if that is given."""

    def __init__(self, other_registry: "CheckpointHandlerRegistry | None" = None) -> None:
        self._registry: dict[Any, Any] = {}
        if other_registry:
            for (item, args), handler in other_registry.get_all_entries().items():
                self.add(item, args, handler)

    def add(self, item: "str | None", args: Any, handler: Any = None) -> None:
        """Adds a handler or a class of them. None: the one that is registered for the arguments.

        Raises AlreadyExistsError for a second entry, ValueError if no handler can be found or made.
        """
        args_class = _class_of(args)
        if self.has(item, args_class):
            raise AlreadyExistsError(
                f"Entry for item={item} and args_type={args_class} already exists in the registry"
            )
        made = handler
        if made is None:
            try:
                made = get_registered_handler_cls(args)
            except ValueError as error:
                raise ValueError(
                    f"Provided a `None` `CheckpointHandler` for item={item}: {error}"
                ) from error
        if inspect.isclass(made):
            try:
                made = made()
            except TypeError as error:
                raise ValueError(
                    f"{made} of item {item!r} is not default-constructible; give a handler: {error}"
                ) from error
        self._registry[(item, args_class)] = made

    def get(self, item: "str | None", args: Any) -> Any:
        """The handler of an item for arguments. Raises NoEntryError."""
        try:
            return self._registry[(item, _class_of(args))]
        except KeyError:
            raise NoEntryError(
                f"No entry for item={item} and args_ty={_class_of(args)} in the registry"
            ) from None

    def has(self, item: "str | None", args: Any) -> bool:
        """Whether there is a handler."""
        return (item, _class_of(args)) in self._registry

    def get_all_entries(self) -> "dict[Any, Any]":
        """Handlers by item and class of arguments."""
        return self._registry

    def __repr__(self) -> str:
        return f"DefaultCheckpointHandlerRegistry({self._registry})"


def create_default_handler_registry(**items_to_handlers: Any) -> DefaultCheckpointHandlerRegistry:
    """A registry of items with their handlers."""
    registry = DefaultCheckpointHandlerRegistry()
    for item, handler in items_to_handlers.items():
        save, restore = get_registered_args_cls(handler)
        registry.add(item, save, handler)
        if restore is not save:
            registry.add(item, restore, handler)
    return registry
