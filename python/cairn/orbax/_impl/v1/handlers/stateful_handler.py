"""StatefulCheckpointableHandler: objects that save and load themselves."""

from collections.abc import Awaitable
from typing import Any, ClassVar

from cairn.orbax._impl.v1.handlers.handler_types import (
    CheckpointableHandler,
    PathAwaitingCreation,
    StatefulCheckpointable,
)


class StatefulCheckpointableHandler(CheckpointableHandler[Any, Any]):
    """Saves and loads objects by their own methods."""

    _typestr: ClassVar[str] = (
        "orbax.checkpoint.experimental.v1._src.handlers.stateful_checkpointable_handler."
        "StatefulCheckpointableHandler"
    )

    async def save(self, directory: PathAwaitingCreation, checkpointable: Any) -> "Awaitable[None]":
        """Lets the object save itself."""
        return await checkpointable.save(directory)  # type: ignore[no-any-return]

    async def load(self, directory: Any, abstract_checkpointable: Any = None) -> "Awaitable[Any]":
        """Lets the target load itself. Raises ValueError without one."""
        if abstract_checkpointable is None:
            raise ValueError(f"{directory}: give an object that loads itself as the target")
        return self._finish(await abstract_checkpointable.load(directory), abstract_checkpointable)

    async def _finish(self, rest: Any, loaded: Any) -> Any:
        await rest
        return loaded

    async def metadata(self, directory: Any) -> Any:
        """Raises NotImplementedError."""
        raise NotImplementedError(f"{directory}: an object that loads itself has no metadata")

    def is_handleable(self, checkpointable: Any) -> bool:
        """Whether an object can save itself."""
        return isinstance(checkpointable, StatefulCheckpointable)

    def is_abstract_handleable(self, abstract_checkpointable: Any) -> bool:
        """Whether a target can load itself."""
        return isinstance(abstract_checkpointable, StatefulCheckpointable)
