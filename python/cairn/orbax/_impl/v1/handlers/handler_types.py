"""The interfaces of handlers, and the directory that they are given."""

import os
from collections.abc import Awaitable
from typing import Any, Protocol, TypeVar, runtime_checkable

_Checkpointable = TypeVar("_Checkpointable")
_Abstract = TypeVar("_Abstract")


class Checkpointable:
    """Stands for a part of a checkpoint that is saved and loaded alone, of any type."""


class AbstractCheckpointable:
    """Stands for what describes a Checkpointable: a target for its load, or its metadata."""


class PathAwaitingCreation(Protocol):
    """A directory that a handler writes to. It exists after await_creation()."""

    def __truediv__(self, other: Any) -> "PathAwaitingCreation":
        """A path in it, which nobody creates."""
        ...

    @property
    def path(self) -> Any:
        """The path."""
        ...

    async def await_creation(self) -> Any:
        """The path, when it exists."""
        ...


class CreatedPath(PathAwaitingCreation):
    """A directory that exists already: local directories are made at once."""

    def __init__(self, path: Any) -> None:
        self._path = path

    def __truediv__(self, other: Any) -> "CreatedPath":
        if not isinstance(other, str | os.PathLike):
            raise TypeError(f"expected a str or a path, not {type(other)}")
        return CreatedPath(self._path / other)

    @property
    def path(self) -> Any:
        """The path."""
        return self._path

    async def await_creation(self) -> Any:
        """The path."""
        return self._path


@runtime_checkable
class StatefulCheckpointable(Protocol):
    """An object that saves itself and loads itself.

    Both methods do what must block the caller, and return an awaitable of the rest.
    """

    async def save(self, directory: PathAwaitingCreation) -> "Awaitable[None]":
        """Saves the object to a directory."""
        ...

    async def load(self, directory: Any) -> "Awaitable[None]":
        """Changes the object to what a directory holds."""
        ...


class CheckpointableHandler(Protocol[_Checkpointable, _Abstract]):
    """Saves and loads checkpointables of one kind. Made without arguments for each call.

    save() and load() do what must block the caller, and return an awaitable of the rest.
    """

    async def save(
        self, directory: PathAwaitingCreation, checkpointable: _Checkpointable
    ) -> "Awaitable[None]":
        """Saves an object to a directory."""
        ...

    async def load(
        self, directory: Any, abstract_checkpointable: "_Abstract | None" = None
    ) -> "Awaitable[_Checkpointable]":
        """Loads an object; the target may say how."""
        ...

    async def metadata(self, directory: Any) -> _Abstract:
        """Returns the metadata of the object. Reads no values."""
        ...

    def is_handleable(self, checkpointable: Any) -> bool:
        """Whether an object can be saved."""
        ...

    def is_abstract_handleable(self, abstract_checkpointable: Any) -> "bool | None":
        """Whether a target can be loaded. None: it depends on who has saved it."""
        ...


def typestr(handler_type: "type[Any]") -> str:
    """The name by which a checkpoint remembers a class of handlers."""
    own = handler_type.__dict__.get("_typestr")
    return own or f"{handler_type.__module__}.{handler_type.__qualname__}"
