"""Trees as bytes of msgpack, in the form of flax and of Orbax's old versions."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.trees.msgpack_bytes import MAX_CHUNK_SIZE, msgpack_restore, msgpack_serialize

__getattr__ = _hints(__name__)

__all__ = [
    "MAX_CHUNK_SIZE",
    "msgpack_restore",
    "msgpack_serialize",
]
