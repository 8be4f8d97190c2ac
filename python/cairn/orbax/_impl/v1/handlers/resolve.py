"""The handler that saves or loads a checkpointable."""

import logging
from typing import Any

from cairn.orbax._impl.v1.handlers.handler_types import StatefulCheckpointable, typestr
from cairn.orbax._impl.v1.handlers.registry import CheckpointableHandlerRegistry, NoEntryError
from cairn.orbax._impl.v1.names import STATE

_log = logging.getLogger("cairn.orbax")


def _make(handler_type: "type[Any]", name: "str | None") -> Any:
    try:
        return handler_type()
    except TypeError as error:
        raise ValueError(
            f"checkpointable {name!r}: {handler_type} cannot be made without arguments: {error}"
        ) from error


def _last_for_any_name(registry: CheckpointableHandlerRegistry, accepts: Any) -> Any:
    """The handler registered last among those for any name that accept; None if none does."""
    for handler_type, name in reversed(registry.get_all_entries()):
        if name is None:
            handler = _make(handler_type, name)
            if accepts(handler):
                return handler
    return None


def handler_for_save(
    registry: CheckpointableHandlerRegistry, name: str, checkpointable: Any
) -> Any:
    """The handler of the name; else the last one that can handle the object.

    Raises ValueError for None, NoEntryError if there is no handler.
    """
    if checkpointable is None:
        raise ValueError(f"checkpointable {name!r} must not be None: leave it out")
    capable = _last_for_any_name(registry, lambda handler: handler.is_handleable(checkpointable))
    if capable is not None and isinstance(checkpointable, StatefulCheckpointable):
        return capable
    if registry.has(name):
        return _make(registry.get(name), name)
    if capable is not None:
        return capable
    raise NoEntryError(
        f"checkpointable {name!r}: no handler can save {type(checkpointable)}; register a "
        "CheckpointableHandler for it by register_handler() or context.checkpointables.registry. "
        f"Registered: {[one for one, _ in registry.get_all_entries()]}"
    )


def handler_for_load(
    registry: CheckpointableHandlerRegistry, name: str, target: Any, saved_by: "str | None"
) -> Any:
    """The handler of the name; else that which has saved it; else one that can handle the target.

    The handler for trees is the last choice. Raises NoEntryError if that is missing, too.
    """

    def accepts(handler: Any) -> bool:
        return target is None or bool(handler.is_abstract_handleable(target))

    named = _make(registry.get(name), name) if registry.has(name) else None
    saver = _by_typestr(registry, saved_by)
    candidates = [named, saver]
    if isinstance(target, StatefulCheckpointable):
        candidates = [saver, named]
    for handler in candidates:
        if handler is not None and accepts(handler):
            return handler
    if target is not None:
        capable = _last_for_any_name(registry, accepts)
        if capable is not None:
            return capable
    if named is not None:
        return named
    if registry.has(STATE):
        _log.warning("checkpointable %r: no handler is known; it is loaded as a tree", name)
        return _make(registry.get(STATE), STATE)
    raise NoEntryError(
        f"checkpointable {name!r}, which {saved_by} has saved: no handler can load it like "
        f"{target!r}; register one. Registered: {registry.get_all_entries()}"
    )


def _by_typestr(registry: CheckpointableHandlerRegistry, saved_by: "str | None") -> Any:
    if not saved_by:
        return None
    for handler_type, name in reversed(registry.get_all_entries()):
        known = (typestr(handler_type), *registry.get_secondary_typestrs(handler_type))
        if saved_by in known:
            return _make(handler_type, name)
    return None
