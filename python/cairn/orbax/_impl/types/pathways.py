"""Functions that set up Pathways. They accept runs without it; Pathways is not available."""

import enum
from typing import Any

from cairn.orbax._impl.types.leaf_options import ArrayMetadataStore
from cairn.orbax._impl.types.standard_types import (
    ArrayHandler,
    NumpyHandler,
    ScalarHandler,
    SingleReplicaArrayHandler,
)
from cairn.orbax._impl.types.type_registry import register_type_handler

_PROCESS_ID = "pwcontroller"
_NO_PERSISTENCE = (
    "Pathways is not available, which alone has a persistence array handler: pass "
    "checkpointing_impl=CheckpointingImpl.NO_DISPATCHER, or register no handlers"
)


class CheckpointingImpl(enum.Enum):
    """How arrays are saved with Pathways. Without it, NO_DISPATCHER."""

    COLOCATED_PYTHON = enum.auto()
    PERSISTENCE = enum.auto()
    NO_DISPATCHER = enum.auto()

    @classmethod
    def from_options(
        cls, *, use_colocated_python: bool = False, use_persistence_array_handler: bool = False
    ) -> "CheckpointingImpl":
        """The first of these two that is True, else NO_DISPATCHER."""
        if use_colocated_python:
            return cls.COLOCATED_PYTHON
        return cls.PERSISTENCE if use_persistence_array_handler else cls.NO_DISPATCHER


class CloudPathwaysArrayHandler(ArrayHandler):
    """The persistence array handler of Pathways: NotImplementedError.

    The package pathwaysutils imports this class in every run, and makes one only with Pathways.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(_NO_PERSISTENCE)


def get_pathways_numpy_handler(deepcopy_host_arrays: bool = True) -> NumpyHandler:
    """The handler of arrays of NumPy."""
    return NumpyHandler(ocdbt_process_id=_PROCESS_ID, deepcopy_host_arrays=deepcopy_host_arrays)


def get_pathways_scalar_handler() -> ScalarHandler:
    """The handler of numbers."""
    return ScalarHandler(ocdbt_process_id=_PROCESS_ID)


def get_pathways_array_handler(
    use_single_replica_array_handler: bool = False,
    checkpointing_impl: "CheckpointingImpl | None" = None,
    **kwargs: Any,
) -> ArrayHandler:
    """The handler of arrays of JAX. kwargs: its options.

    Without Pathways, each process has its devices itself: COLOCATED_PYTHON, the default, is the
    same as NO_DISPATCHER. Raises NotImplementedError for PERSISTENCE, as in Orbax.
    """
    if checkpointing_impl is CheckpointingImpl.PERSISTENCE:
        raise NotImplementedError(_NO_PERSISTENCE)
    kind = SingleReplicaArrayHandler if use_single_replica_array_handler else ArrayHandler
    return kind(**{"array_metadata_store": ArrayMetadataStore(), **kwargs})


def register_type_handlers(
    use_single_replica_array_handler: bool = False,
    checkpointing_impl: "CheckpointingImpl | None" = None,
    **kwargs: Any,
) -> None:
    """Replaces the handlers of numbers and arrays in the global registry.

    The arguments are those of get_pathways_array_handler(), as are its errors.
    """
    import jax
    import numpy as np

    arrays = get_pathways_array_handler(
        use_single_replica_array_handler, checkpointing_impl, **kwargs
    )
    for kind in (int, float, bytes, np.number):
        register_type_handler(kind, get_pathways_scalar_handler(), override=True)
    register_type_handler(np.ndarray, get_pathways_numpy_handler(), override=True)
    register_type_handler(jax.Array, arrays, override=True)


register_pathways_handlers = register_type_handlers
