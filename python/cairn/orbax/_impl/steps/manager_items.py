"""The items of a manager's steps: one, which nobody names, or several."""

from typing import Any

from cairn.orbax._impl.commit.checkpointer import Checkpointer
from cairn.orbax._impl.handlers.args import (
    CheckpointArgs,
    get_registered_args_cls,
    is_args_class,
)
from cairn.orbax._impl.handlers.composite_handler import CompositeArgs, CompositeCheckpointHandler
from cairn.orbax._impl.steps.manager_setup import DEFAULT_ITEM


class ManagerItems:
    """Names the arguments of items. The first save or restore decides whether there is only one."""

    def __init__(self, checkpointer: Checkpointer, single: "bool | None") -> None:
        self._checkpointer = checkpointer
        self._single = single

    def decide_by_args(self, args: Any) -> None:
        """Decides by the arguments of a save, unless it is decided."""
        if self._single is None:
            self._single = not isinstance(args, CompositeArgs)

    def decide_by_path(self, path: Any) -> None:
        """Decides by a step that is stored, unless it is decided."""
        if self._single is None:
            self._single = (path / DEFAULT_ITEM).exists()

    def check(self, items: Any, args: Any) -> None:
        """Raises ValueError for arguments of the wrong kind."""
        if is_args_class(type(items)):
            raise ValueError("`items` are CheckpointArgs: give them as args=...")
        if args is None:
            return
        if not is_args_class(type(args)):
            raise ValueError(f"Expected args of type `CheckpointArgs`; found {type(args)}.")
        if self._single and isinstance(args, CompositeArgs):
            raise ValueError(
                "Cannot provide `args` of type `Composite` when dealing with a single, unnamed "
                "(default) checkpointable object."
            )
        if not self._single and not isinstance(args, CompositeArgs):
            raise ValueError(
                "Must provide `args` of type `Composite` when dealing with multiple checkpointable "
                "objects."
            )

    def named(
        self, items: Any, kwargs: Any, args: Any, for_save: bool
    ) -> "dict[str, CheckpointArgs]":
        """The arguments of each item."""
        if args is not None:
            return {DEFAULT_ITEM: args} if self._single else dict(args.items())
        if self._single:
            items = {} if items is None else {DEFAULT_ITEM: items}
            kwargs = {} if kwargs is None else {DEFAULT_ITEM: kwargs}
        items, kwargs = items or {}, kwargs or {}
        handler = self._checkpointer.handler
        assert isinstance(handler, CompositeCheckpointHandler)
        handlers = handler.handlers()
        named = {}
        for key in [*items, *(key for key in kwargs if key not in items)]:
            if key not in handlers:
                raise ValueError(f"Unknown key '{key}'. Please make sure it is in the item names.")
            cls: Any = get_registered_args_cls(handlers[key])[0 if for_save else 1]
            named[key] = cls(items.get(key), **(kwargs.get(key) or {}))
        return named

    def result(self, found: Any) -> Any:
        """The only item of what was found by item, or all. Raises ValueError without a handler."""
        if not self._single:
            return found
        if DEFAULT_ITEM not in found:
            raise ValueError(
                "Unable to retrieve default item. Please ensure that a handler for the default "
                "item is registered using `handler_registry` when initializing the "
                "`CheckpointManager`."
            )
        return found[DEFAULT_ITEM]
