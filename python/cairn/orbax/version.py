"""The version of Orbax whose interface this is."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.base.version import __version__, get_details

__getattr__ = _hints(__name__)

__all__ = ["__version__", "get_details"]
