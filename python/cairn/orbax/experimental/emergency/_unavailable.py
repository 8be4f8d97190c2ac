"""The error of the managers that cairn.orbax does not have."""

from typing import Any


class UnavailableManager:
    """Raises NotImplementedError when it is made."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        kind = f"{type(self).__module__}.{type(self).__qualname__}"
        raise NotImplementedError(
            f"{kind}: checkpoints on the local disks of slices are not available; use "
            "cairn.orbax.CheckpointManager with a directory that all processes see, or the manager "
            "of orbax.checkpoint"
        )
