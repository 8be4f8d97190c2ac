"""Paths: step."""

from cairn.orbax import step
from cairn.orbax._impl.missing import hints as _hints

__getattr__ = _hints(
    __name__,
    dict.fromkeys(
        ("atomicity", "atomicity_types", "deleter", "format_utils"),
        "cairn.orbax has one way to commit and to remove",
    ),
)

__all__ = ["step"]
