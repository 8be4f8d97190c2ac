"""The interfaces of handlers, which write one item into a directory and read it again."""

import abc
from typing import Any, ClassVar

from cairn.orbax._impl.base import asyncs, waiting


class CheckpointHandler(abc.ABC):
    """Saves and restores one item. A Checkpointer makes the whole atomic."""

    # The name that Orbax records for its own handlers; "" for those of users.
    _typestr: ClassVar[str] = ""

    @abc.abstractmethod
    def save(self, directory: Any, *args: Any, **kwargs: Any) -> None:
        """Writes the item into a directory that exists."""

    @abc.abstractmethod
    def restore(self, directory: Any, *args: Any, **kwargs: Any) -> Any:
        """Reads the item."""

    def metadata(self, directory: Any) -> Any:
        """Returns the metadata of the item. Reads no values."""
        raise NotImplementedError(f"{type(self).__qualname__} has no metadata")

    def finalize(self, directory: Any) -> None:  # noqa: B027
        """Called once, after everything is written and before the checkpoint gets its name."""

    def close(self) -> None:  # noqa: B027
        """Gives resources back."""

    @classmethod
    def typestr(cls) -> str:
        """The name by which a checkpoint remembers the handler."""
        return cls.__dict__.get("_typestr") or f"{cls.__module__}.{cls.__qualname__}"


class AsyncCheckpointHandler(CheckpointHandler):
    """A handler whose async_save() returns before everything is written."""

    @abc.abstractmethod
    async def async_save(self, directory: Any, *args: Any, **kwargs: Any) -> "list[Any] | None":
        """Copies what the caller may change, and returns futures of the rest."""


async def save_and_wait(handler: AsyncCheckpointHandler, *args: Any, **kwargs: Any) -> None:
    """Saves, and waits for what async_save() has left to do."""
    for future in await handler.async_save(*args, **kwargs) or []:
        future.result()


class NativeHandler(AsyncCheckpointHandler):
    """A handler whose save() is async_save() with a wait."""

    def save(self, directory: Any, *args: Any, **kwargs: Any) -> None:
        """Writes the item and waits until that is done."""
        with waiting.for_the_save():
            asyncs.run(save_and_wait(self, directory, *args, **kwargs))
