"""Paths, and the names of steps."""

import os
from typing import Any

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.v1.handlers.handler_types import PathAwaitingCreation
from cairn.orbax._impl.v1.options import default_path_class as _path_class
from cairn.orbax.v1.path import step

PathLike = str | os.PathLike[str]

_missing = _hints(__name__)


def __getattr__(name: str) -> Any:
    if name == "Path":  # etils is not imported before it is used
        return _path_class()
    return _missing(name)


__all__ = ["Path", "PathAwaitingCreation", "PathLike", "step"]
