"""Which class of handlers a checkpointable has."""

from collections.abc import Sequence
from typing import Any, Protocol

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


class Registry(CheckpointableHandlerRegistry):
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


class ReadOnlyRegistry(Registry):
    """A registry to which nothing can be added."""

    def __init__(self, other: CheckpointableHandlerRegistry) -> None:
        super().__init__()
        copy_entries(other, super())

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


def copy_entries(source: CheckpointableHandlerRegistry, target: Any) -> None:
    """Adds the entries of a registry to another one."""
    for handler_type, name in source.get_all_entries():
        typestrs = source.get_secondary_typestrs(handler_type)
        target.add(handler_type, checkpointable_name=name, secondary_typestrs=typestrs)
