"""Changes of models between checkpoint and program. `transformations` has them."""

from cairn.orbax._impl.base.missing import hints as _hints

__getattr__ = _hints(__name__, general="import its module transformations")
