"""CheckpointablesOptions: the handlers of a context."""

import dataclasses
from typing import Any

from cairn.orbax._impl.v1.frozen import Options
from cairn.orbax._impl.v1.handlers.global_registry import read_only_registry


@dataclasses.dataclass(kw_only=True)
class CheckpointablesOptions(Options):
    """The handlers of checkpointables: a registry, e.g. of handlers.local_registry()."""

    registry: Any = dataclasses.field(default_factory=read_only_registry)
