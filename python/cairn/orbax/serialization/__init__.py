"""What programs need that open arrays with TensorStore themselves."""

from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax.serialization import tensorstore_utils
from cairn.orbax.serialization.tensorstore_utils import get_ts_context

_HINT = "jax.experimental.array_serialization.serialization has a function of this name"

__getattr__ = _hints(__name__, dict.fromkeys(("async_serialize", "async_deserialize"), _HINT))

ts_utils = tensorstore_utils

__all__ = ["get_ts_context", "tensorstore_utils", "ts_utils"]
