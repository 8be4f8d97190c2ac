"""Which class of handlers a checkpointable has."""

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

Entry = tuple[type[Any], "str | None"]


class AlreadyExistsError(ValueError):
    """The registry already has the handler, or one for this name."""


class NoEntryError(KeyError):
    """No handler is registered for a checkpointable."""


class CheckpointableHandlerRegistry(Protocol):
    """The interface of a registry: classes of handlers, each for one name or for any."""

    def add(
        self,
        handler_type: "type[Any]",
        *,
        checkpointable_name: "str | None" = None,
        secondary_typestrs: "Sequence[str] | None" = None,
    ) -> "CheckpointableHandlerRegistry":
        """Adds a class. Returns the registry."""
        ...

    def get(self, checkpointable_name: str) -> "type[Any]":
        """The class for a name. Raises NoEntryError."""
        ...

    def has(self, checkpointable_name: str) -> bool:
        """Whether there is a class for the name."""
        ...

    def get_all_entries(self) -> "Sequence[Entry]":
        """Classes and their names, in the order in which they were added."""
        ...

    def get_secondary_typestrs(self, handler_type: "type[Any]") -> "Sequence[str]":
        """Other names under which checkpoints know the class."""
        ...


class _Registry(CheckpointableHandlerRegistry):
    """A registry in memory."""

    def __init__(self) -> None:
        self._entries: list[Entry] = []
        self._typestrs: dict[Any, Sequence[str]] = {}

    def add(
        self,
        handler_type: "type[Any]",
        *,
        checkpointable_name: "str | None" = None,
        secondary_typestrs: "Sequence[str] | None" = None,
    ) -> "CheckpointableHandlerRegistry":
        """Adds a class for a name, or (None) for any.

        Raises AlreadyExistsError for a second class of a name, and if a class for any name is there
        already; ValueError for anything but a class.
        """
        if not isinstance(handler_type, type):
            raise ValueError(f"handler_type must be a class, not {handler_type!r}")
        if checkpointable_name:
            if self.has(checkpointable_name):
                raise AlreadyExistsError(
                    f"there is a handler for the name {checkpointable_name!r}: "
                    f"{self.get(checkpointable_name)}"
                )
        elif any(known is handler_type for known, _ in self._entries):
            raise AlreadyExistsError(f"{handler_type} is registered already")
        self._entries.append((handler_type, checkpointable_name))
        if secondary_typestrs is not None:
            self._typestrs[handler_type] = secondary_typestrs
        return self

    def get(self, checkpointable_name: str) -> "type[Any]":
        """The class for a name. Raises NoEntryError."""
        for handler_type, name in self._entries:
            if name == checkpointable_name:
                return handler_type
        raise NoEntryError(f"no handler is registered for the name {checkpointable_name!r}")

    def has(self, checkpointable_name: str) -> bool:
        """Whether there is a class for the name."""
        return any(name == checkpointable_name for _, name in self._entries)

    def get_all_entries(self) -> "Sequence[Entry]":
        """Classes and their names, in the order in which they were added."""
        return self._entries

    def get_secondary_typestrs(self, handler_type: "type[Any]") -> "Sequence[str]":
        """Other names under which checkpoints know the class."""
        return self._typestrs.get(handler_type, [])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._entries})"


class _ReadOnlyRegistry(_Registry):
    """A registry to which nothing can be added."""

    def __init__(self, other: CheckpointableHandlerRegistry) -> None:
        super().__init__()
        _copy(other, super())

    def add(
        self,
        handler_type: "type[Any]",
        *,
        checkpointable_name: "str | None" = None,
        secondary_typestrs: "Sequence[str] | None" = None,
    ) -> "CheckpointableHandlerRegistry":
        """Raises NotImplementedError."""
        raise NotImplementedError(
            "this registry is read-only; set context.checkpointables.registry to one of "
            "handlers.local_registry()"
        )


def _copy(source: CheckpointableHandlerRegistry, target: Any) -> None:
    for handler_type, name in source.get_all_entries():
        typestrs = source.get_secondary_typestrs(handler_type)
        target.add(handler_type, checkpointable_name=name, secondary_typestrs=typestrs)


_global = _Registry()


def global_registry() -> CheckpointableHandlerRegistry:
    """The registry that all contexts begin with."""
    from cairn.orbax.v1._impl.handlers import standard_handlers

    standard_handlers.register(_global)
    return _global


def local_registry(
    other_registry: "CheckpointableHandlerRegistry | None" = None,
    *,
    include_global_registry: bool = True,
) -> CheckpointableHandlerRegistry:
    """A new registry with the entries of the global one (by default) and of another."""
    result = _Registry()
    if include_global_registry:
        _copy(global_registry(), result)
    if other_registry:
        _copy(other_registry, result)
    return result


def read_only_registry() -> CheckpointableHandlerRegistry:
    """A copy of the global registry, to which nothing can be added."""
    return _ReadOnlyRegistry(global_registry())


_Class = TypeVar("_Class", bound="type[Any]")


def register_handler(
    cls: _Class,
    *,
    checkpointable_name: "str | None" = None,
    secondary_typestrs: "Sequence[str] | None" = None,
) -> _Class:
    """Adds a class of handlers to the global registry. Also a decorator.

    If several classes can handle an object, the one that was registered last does.
    """
    global_registry().add(
        cls, checkpointable_name=checkpointable_name, secondary_typestrs=secondary_typestrs
    )
    return cls
