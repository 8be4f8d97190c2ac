"""Arguments of saves and restores, and which handler takes which."""

import dataclasses
import inspect
import logging
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from cairn.orbax._impl.base import events
from cairn.orbax._impl.handlers.handler import AsyncCheckpointHandler, CheckpointHandler

_log = logging.getLogger("cairn.orbax")


@dataclasses.dataclass
class CheckpointArgs:
    """The base of the arguments of a save or a restore."""


_Args = TypeVar("_Args", bound=type[CheckpointArgs])

_save_handlers: "dict[type[CheckpointArgs], type[CheckpointHandler]]" = {}
_restore_handlers: "dict[type[CheckpointArgs], type[CheckpointHandler]]" = {}
_by_typestr: "dict[str, type[CheckpointHandler]]" = {}


def register_with_handler(
    handler_cls: "type[CheckpointHandler]", for_save: bool = False, for_restore: bool = False
) -> "Callable[[_Args], _Args]":
    """A decorator of a class of arguments: objects of it are for this handler.

    Raises ValueError if it is neither for saves nor for restores, TypeError if the class is not
    derived from CheckpointArgs.
    """
    if not for_save and not for_restore:
        raise ValueError("`for_save` and `for_restore` cannot both be False")

    def register(cls: _Args) -> _Args:
        if not issubclass(cls, CheckpointArgs):
            raise TypeError(f"{cls} must subclass CheckpointArgs")
        if for_save:
            _save_handlers[cls] = handler_cls
        if for_restore:
            _restore_handlers[cls] = handler_cls
        _by_typestr[handler_cls.typestr()] = handler_cls
        return cls

    return register


def get_registered_handler_cls(arg: Any) -> "type[CheckpointHandler]":
    """The handler for arguments. TypeError for anything else, ValueError if none is known."""
    cls = arg if inspect.isclass(arg) else type(arg)
    if not is_args_class(cls):
        raise TypeError(f"{cls} must be derived from CheckpointArgs")
    found: type[CheckpointHandler] | None
    if issubclass(cls, CheckpointArgs):
        found = _save_handlers.get(cls) or _restore_handlers.get(cls)
    else:
        found = _orbax_args().get_registered_handler_cls(cls)
    if found is None:
        raise ValueError(f"no CheckpointHandler is registered for {cls}; use register_with_handler")
    return found


def get_registered_args_cls(handler: Any) -> "tuple[type[CheckpointArgs], type[CheckpointArgs]]":
    """The arguments of a handler: for saves, for restores. Raises ValueError if there are none."""
    cls = handler if inspect.isclass(handler) else type(handler)
    if _is_registered_with_orbax(cls):
        save, restore = _orbax_args().get_registered_args_cls(cls)
        return save, restore
    found = []
    for purpose, known in (("save", _save_handlers), ("restore", _restore_handlers)):
        args = next((args for args, owner in known.items() if owner is cls), None)
        if args is None:
            raise ValueError(f"no CheckpointArgs are registered to {purpose} with {cls}")
        found.append(args)
    return found[0], found[1]


def has_registered_args(handler: Any) -> bool:
    """Whether a handler has arguments of its own."""
    try:
        get_registered_args_cls(handler)
    except ValueError:
        return False
    return True


def handler_of_typestr(typestr: "str | None") -> "type[CheckpointHandler]":
    """The handler that a checkpoint names. Raises KeyError for an unknown one."""
    return _by_typestr[typestr or ""]


# ---- what a library, such as grain, has registered with Orbax for its own objects ----


def _orbax_args() -> Any:
    """Orbax's module of arguments; None if nobody has imported it. Cairn does not.

    None, too, if a program has put cairn.orbax in its place.
    """
    module = sys.modules.get("orbax.checkpoint.checkpoint_args")
    return None if getattr(module, "CheckpointArgs", CheckpointArgs) is CheckpointArgs else module


def _is_of_orbax(cls: type) -> bool:
    return cls.__module__.startswith("orbax.checkpoint")


def is_args_class(cls: type) -> bool:
    """Whether objects of the class are arguments: of Cairn, or of a library that knows Orbax."""
    if issubclass(cls, CheckpointArgs):
        return True
    orbax = _orbax_args()
    return orbax is not None and not _is_of_orbax(cls) and issubclass(cls, orbax.CheckpointArgs)


def _is_registered_with_orbax(handler_cls: type) -> bool:
    orbax = _orbax_args()
    if orbax is None or _is_of_orbax(handler_cls) or issubclass(handler_cls, CheckpointHandler):
        return False
    return bool(orbax.has_registered_args(handler_cls))


# ---- handlers without arguments of their own ----


class _Wrapper(CheckpointHandler):
    """Gives a handler the arguments with which the checkpointer was called."""

    def __init__(self, handler: CheckpointHandler) -> None:
        self._handler: Any = handler

    def save(self, directory: Any, args: Any) -> None:
        self._handler.save(directory, *args.args, **args.kwargs)

    def restore(self, directory: Any, args: Any) -> Any:
        return self._handler.restore(directory, *args.args, **args.kwargs)

    def metadata(self, directory: Any) -> Any:
        return self._handler.metadata(directory)

    def finalize(self, directory: Any) -> None:
        self._handler.finalize(directory)

    def close(self) -> None:
        self._handler.close()


class _AsyncWrapper(_Wrapper, AsyncCheckpointHandler):
    async def async_save(self, directory: Any, args: Any) -> Any:
        return await self._handler.async_save(directory, *args.args, **args.kwargs)


class _CallArgs(CheckpointArgs):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args = args
        self.kwargs = kwargs


@register_with_handler(_Wrapper, for_save=True, for_restore=True)
class WrapperArgs(_CallArgs):
    """The arguments of a call, for a handler that has none of its own."""


@register_with_handler(_AsyncWrapper, for_save=True, for_restore=True)
class AsyncWrapperArgs(_CallArgs):
    """Arguments of an AsyncCheckpointHandler that has no arguments class of its own."""


def wrapped(handler: CheckpointHandler) -> CheckpointHandler:
    """The handler itself, or a wrapper if no arguments are registered for it."""
    if has_registered_args(handler):
        return handler
    _log.warning("No registered CheckpointArgs found for handler type: %s", type(handler))
    if isinstance(handler, AsyncCheckpointHandler):
        return _AsyncWrapper(handler)
    return _Wrapper(handler)


def construct(handler: CheckpointHandler, for_save: bool, args: Any, kwargs: Any) -> CheckpointArgs:
    """The arguments among those of a call, or made of them."""
    value: CheckpointArgs
    for value in (*args, *kwargs.values()):
        if is_args_class(type(value)):
            return value
    events.event("/jax/orbax/deprecation/checkpointer_legacy_args")
    save, restore = get_registered_args_cls(handler)
    return (save if for_save else restore)(*args, **kwargs)
