"""The error of the managers that cairn.orbax does not have."""

from typing import Any

from cairn.orbax._impl.steps.abstract_manager import AbstractCheckpointManager


class UnavailableManager(AbstractCheckpointManager):
    """Raises NotImplementedError when it is made.

    It has the methods of a manager, because tests of programs make mocks that have them.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        raise NotImplementedError(
            f"{kind}: checkpoints on the local disks of slices are not available; use "
            "cairn.orbax.CheckpointManager with a directory that all processes see, or the manager "
            "of orbax.checkpoint"
        )

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *error: Any) -> None:
        raise NotImplementedError
