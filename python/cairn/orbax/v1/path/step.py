"""How the directories of steps are named."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.v1.steps.step_names import (
    NameFormat,
    composite_name_format,
    standard_name_format,
)

__getattr__ = _hints(__name__)

__all__ = ["NameFormat", "composite_name_format", "standard_name_format"]
