"""Loggers that receive the statistics of a CheckpointManager's saves and restores."""

from cairn.orbax._impl.base.loggers import AbstractLogger, CompositeLogger, StandardLogger
from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax.logging import step_statistics

__all__ = ["AbstractLogger", "CompositeLogger", "StandardLogger", "step_statistics"]

__getattr__ = _hints(
    __name__,
    {
        "CloudLogger": "write an AbstractLogger that calls google.cloud.logging",
        "CloudLoggerOptions": "write an AbstractLogger that calls google.cloud.logging",
    },
)
