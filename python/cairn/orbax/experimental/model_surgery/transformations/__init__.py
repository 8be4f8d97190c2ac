"""Transformations of flat dicts of arrays: functions that take a dict and return another one.

`renaming`, `nesting`, `fusing`, `repeating` and `stacking` make them, as in Orbax.
"""

from cairn.orbax._impl.base.missing import hints as _hints

__getattr__ = _hints(__name__, general="import its modules")
