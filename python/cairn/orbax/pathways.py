"""Functions that set up Pathways. They accept runs without it; Pathways is not available."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.types.pathways import (
    CheckpointingImpl,
    get_pathways_array_handler,
    get_pathways_numpy_handler,
    get_pathways_scalar_handler,
    register_pathways_handlers,
    register_type_handlers,
)

__getattr__ = _hints(__name__)

__all__ = [
    "CheckpointingImpl",
    "get_pathways_array_handler",
    "get_pathways_numpy_handler",
    "get_pathways_scalar_handler",
    "register_pathways_handlers",
    "register_type_handlers",
]
