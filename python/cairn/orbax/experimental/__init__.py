"""The place that version 1 of the API has in orbax.checkpoint: cairn.orbax.v1 under that name."""

import importlib
import sys
from typing import Any

from cairn.orbax import v1
from cairn.orbax._impl.base import aliases as _aliases
from cairn.orbax._impl.base.missing import hints as _hints

_missing = _hints(__name__)


def __getattr__(name: str) -> Any:
    if name in ("emergency", "model_surgery"):
        return importlib.import_module(f"{__name__}.{name}")
    return _missing(name)


sys.modules[f"{__name__}.v1"] = v1  # for `import cairn.orbax.experimental.v1`
_aliases.add(f"{__name__}.v1", v1.__name__)  # and its modules

__all__ = ["emergency", "model_surgery", "v1"]
