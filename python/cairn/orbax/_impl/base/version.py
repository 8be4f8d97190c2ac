"""The version of Orbax whose interface this is."""

from cairn._cairn import version as _version_of_cairn

__version__ = "0.12.8"


def get_details() -> str:
    """The version, and that of Cairn, for reports of errors."""
    return f"orbax-checkpoint version: {__version__} (the interface of cairn {_version_of_cairn})"
