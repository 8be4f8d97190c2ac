"""The version of Orbax whose interface this is."""

from cairn.orbax._impl.missing import hints as _hints

__getattr__ = _hints(__name__)

__version__ = "0.12.8"


def get_details() -> str:
    """The version, and that of Cairn, for reports of errors."""
    from cairn import __version__ as of_cairn

    return f"orbax-checkpoint version: {__version__} (the interface of cairn {of_cairn})"


__all__ = ["__version__", "get_details"]
