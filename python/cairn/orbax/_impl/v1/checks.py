"""Refuses options of a context that cairn.orbax does not have, so that none is ignored."""

import sys
from typing import Any, TypeVar

from cairn._processes import has_jax_distributed
from cairn.orbax._impl.base.options import AtomicityMode
from cairn.orbax._impl.types.leaf_options import ArrayMetadataStore
from cairn.orbax._impl.types.pathways import CheckpointingImpl
from cairn.orbax._impl.v1.settings import Settings

_Settings = TypeVar("_Settings", bound=Settings)
_ONE_PROCESS = "cairn.orbax saves and loads in one process, number 0"
_COPIES = "all arrays are copied before an asynchronous save returns; leave it out"

# Options with the values that are possible, and what to do instead of others.
_POSSIBLE: "tuple[tuple[str, tuple[Any, ...], str], ...]" = (
    ("multiprocessing.primary_host", (None, 0), _ONE_PROCESS),
    ("multiprocessing.active_processes", (None, {0}), _ONE_PROCESS),
    (
        "atomicity.mode",
        (AtomicityMode.AUTO, AtomicityMode.ATOMIC_RENAME),
        "version 1 completes a checkpoint by a rename; cairn.orbax.options has the other mode",
    ),
    # Orbax uses it with Pathways only, which is never here.
    (
        "pathways.checkpointing_impl",
        (None, *CheckpointingImpl),
        "pathways.CheckpointingImpl has it",
    ),
    ("array.saving.enable_pinned_host_transfer", (None, False), "JAX chooses how it copies"),
    (
        "array.saving.array_metadata_store",
        (None, ArrayMetadataStore()),
        "leave it out, or set it to None to store no array_metadatas",
    ),
    (
        "array.loading.raise_array_data_missing_error",
        (True,),
        "missing data is always an error; cairn.open reads what is there",
    ),
    (
        "array.loading.load_and_broadcast_options.broadcast_memory_limit_bytes",
        (None,),
        "context.memory.read_concurrent_bytes limits the memory of a load",
    ),
    ("memory.transfer_concurrent_bytes", (None,), _COPIES),
    ("memory.regulator_options", (None,), "memory.write_concurrent_bytes limits a save"),
    ("memory.expected_surge_bytes", (None,), "memory.write_concurrent_bytes limits a save"),
    ("memory.is_prioritized_key_fn", (None,), _COPIES),
    ("memory.serialization_status_callback", (None,), _COPIES),
    ("memory.deepcopy_host_arrays", (True,), "cairn.save writes arrays without a copy"),
    ("safetensors.max_over_read_ratio", (None,), "Cairn joins reads itself; leave it out"),
    ("safetensors.read_chunk_bytes", (None,), "Cairn splits reads itself; leave it out"),
)


def check_processes() -> None:
    """Raises NotImplementedError if there are several processes."""
    if has_jax_distributed() and sys.modules["jax"].process_count() > 1:
        raise NotImplementedError(
            "cairn.orbax.v1 does not save and load from several processes yet; cairn.save, "
            "cairn.load and cairn.orbax do"
        )


def check_options(context: _Settings) -> _Settings:
    """The context. Raises NotImplementedError for what is not available: an option, processes."""
    check_processes()
    for name, possible, hint in _POSSIBLE:
        value: Any = context
        for part in name.split("."):
            value = getattr(value, part)
        if not any(type(value) is type(one) and value == one for one in possible):
            raise NotImplementedError(f"Context.{name}={value!r} is not available: {hint}")
    return context
