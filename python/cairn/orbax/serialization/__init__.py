"""Functions for programs that use TensorStore themselves to write, read or open arrays."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.types.tensorstore_arrays import async_deserialize, async_serialize
from cairn.orbax.serialization import tensorstore_utils
from cairn.orbax.serialization.tensorstore_utils import get_ts_context

__getattr__ = _hints(__name__)

ts_utils = tensorstore_utils

__all__ = [
    "async_deserialize",
    "async_serialize",
    "get_ts_context",
    "tensorstore_utils",
    "ts_utils",
]
