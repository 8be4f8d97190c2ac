"""Loggers that receive the statistics of a CheckpointManager's saves and restores."""

import abc
import logging
from typing import Any

_log = logging.getLogger("cairn.orbax")


class AbstractLogger(abc.ABC):
    """The type of CheckpointManager(logger=...)."""

    @abc.abstractmethod
    def log_entry(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Receives an entry: for a save or restore, its step_statistics as a dict."""


class StandardLogger(AbstractLogger):
    """Passes entries to Python's logger "cairn.orbax", as information."""

    def log_entry(self, msg: Any, *args: Any, **kwargs: Any) -> None:
        """Logs the entry. The arguments are those of logging.Logger.info()."""
        _log.info(msg, *args, **kwargs)


class CompositeLogger(AbstractLogger):
    """Passes entries to several loggers. Warns of other objects, and leaves them out."""

    def __init__(self, *loggers: AbstractLogger) -> None:
        self._known_loggers: list[AbstractLogger] = []
        for logger in loggers:
            if isinstance(logger, AbstractLogger) and not isinstance(logger, CompositeLogger):
                self._known_loggers.append(logger)
            else:
                _log.warning("CompositeLogger leaves out %r: it takes other loggers", logger)

    def log_entry(self, entry: Any) -> None:
        """Passes the entry to each logger."""
        for logger in self._known_loggers:
            logger.log_entry(entry)
