"""Which process has saved a step, and the package grain."""

import logging
from typing import Any

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax.experimental.emergency.p2p.constants import PROCESS_SUBDIR_PREFIX, STATE_SUBDIR

__getattr__ = _hints(__name__)

_log = logging.getLogger("cairn.orbax")


def pygrain() -> Any:
    """The module grain.python; None if it is not installed."""
    try:
        from grain import python
    except ImportError:
        return None
    return python


def detect_process_index(directory: Any, step: int) -> "int | None":
    """The number of the process that has saved a step; None if its files do not say.

    directory: the steps of one process, each with the item "state".
    """
    item = as_path(directory) / str(step) / STATE_SUBDIR
    try:
        for folder in item.glob(f"{PROCESS_SUBDIR_PREFIX}*") if item.exists() else ():
            if folder.is_dir():
                return int(folder.name.rpartition("_")[2])
    except (ValueError, OSError) as error:
        _log.warning("step %d: it is not known which process has saved it: %s", step, error)
    return None


__all__ = ["detect_process_index", "pygrain"]
