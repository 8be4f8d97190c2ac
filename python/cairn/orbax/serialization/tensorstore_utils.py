"""The context of TensorStore for the arrays of a checkpoint."""

from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax._impl.types.tensorstore_specs import get_ts_context

__getattr__ = _hints(__name__)

__all__ = ["get_ts_context"]
