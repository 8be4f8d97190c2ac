"""Paths: how steps are named and how a checkpoint becomes complete."""

from cairn.orbax import step
from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.stored import atomicity
from cairn.orbax._impl.stored import atomicity as atomicity_types

__getattr__ = _hints(
    __name__,
    {
        "atomicity_defaults": "cairn.orbax.options.AtomicityOptions chooses the class",
        "deleter": "cairn.orbax removes local directories by itself",
        "format_utils": "cairn.open finds the format of a checkpoint",
    },
)

__all__ = ["atomicity", "atomicity_types", "step"]
