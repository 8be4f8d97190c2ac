"""Other processes: those of jax.distributed."""

from typing import Any, Protocol

from cairn._processes import has_jax_distributed
from cairn.orbax._impl.base.flags import use_distributed_process_id
from cairn.orbax._impl.base.processes import (
    Group,
    process_count,
    process_index,
)

_DEFAULT_TIMEOUT = 300  # seconds

_group = Group()


def coordination_timeout() -> int:
    """How long processes wait for each other, in seconds."""
    return _DEFAULT_TIMEOUT


def unique_barrier_key(
    key: str, *, prefix: "str | None" = None, suffix: "str | None" = None
) -> str:
    """The name of a barrier: `prefix_key.suffix`."""
    before = "" if prefix is None else f"{prefix}_"
    return f"{before}{key}" if suffix is None else f"{before}{key}.{suffix}"


class BarrierSyncFn(Protocol):
    """A function that waits for other processes."""

    def __call__(self, *, key: str, timeout_ms: int) -> None: ...


def get_barrier_sync_fn(*, processes: "set[int] | None" = None) -> BarrierSyncFn:
    """A function that waits for the other processes, which call it with the same key.

    processes: None for all. Raises NotImplementedError for others, unless it is this one alone.
    """
    if should_skip_process_sync(processes):
        return lambda *, key, timeout_ms: None
    if processes is not None and processes != set(range(process_count())):
        raise NotImplementedError(
            f"get_barrier_sync_fn(processes={sorted(processes)}): all processes wait together"
        )

    def wait(*, key: str, timeout_ms: int) -> None:
        _group.step(f"barrier: {key}", lambda: None, timeout=timeout_ms / 1000)

    return wait


def get_jax_distributed_client() -> Any:
    """The client of jax.distributed. Raises ValueError where that is not initialized."""
    if not is_jax_distributed_client_initialized():
        raise ValueError(
            "jax.distributed is not initialized: call jax.distributed.initialize() when the "
            "program starts"
        )
    from jax._src import distributed

    return distributed.global_state.client


def global_max(values: "list[int]") -> "list[int]":
    """The greatest of each number in all processes. All of them call it."""
    import numpy as np
    from jax.experimental import multihost_utils

    gathered = multihost_utils.process_allgather(np.array(values, np.int32))
    return list(np.asarray(gathered).reshape(-1, len(values)).max(axis=0).astype(int))


# By name of a function, what the processes told each other.
_known: "dict[str, list[Any]]" = {}


def _require(what: str) -> "list[Any]":
    if what not in _known:
        raise ValueError(f"call initialize_{what}() before")
    return _known[what]


def initialize_runtime_to_distributed_ids() -> None:
    """Has runtime_to_distributed_ids() work. All processes call it.

    Raises ValueError without jax.distributed.
    """
    get_jax_distributed_client()
    import jax

    # Each value comes from the process whose number for jax.distributed is its place.
    numbers = _group.gather("numbers of processes", lambda: int(jax.process_index()))
    _known["runtime_to_distributed_ids"] = [numbers.index(own) for own in range(len(numbers))]


def is_runtime_to_distributed_ids_initialized() -> bool:
    """Whether initialize_runtime_to_distributed_ids() was called."""
    return "runtime_to_distributed_ids" in _known


def runtime_to_distributed_ids() -> "list[int]":
    """By number of a process for JAX, its number for jax.distributed."""
    return list(_require("runtime_to_distributed_ids"))


def runtime_to_distributed_process_id(pid: int) -> int:
    """The number of a process for jax.distributed."""
    return int(_require("runtime_to_distributed_ids")[pid])


def initialize_distributed_to_device_ids() -> None:
    """Has distributed_to_device_ids() work. All processes call it.

    Raises ValueError without jax.distributed.
    """
    get_jax_distributed_client()
    import jax

    _known["distributed_to_device_ids"] = _group.gather(
        "numbers of devices", lambda: [int(device.id) for device in jax.local_devices()]
    )


def is_distributed_to_device_ids_initialized() -> bool:
    """Whether initialize_distributed_to_device_ids() was called."""
    return "distributed_to_device_ids" in _known


def distributed_to_device_ids() -> "list[list[int]]":
    """By number of a process for jax.distributed, the numbers of its devices."""
    return list(_require("distributed_to_device_ids"))


def broadcast_one_to_all(in_tree: Any, is_source: "bool | None" = None) -> Any:
    """The tree of the first process, or of the one with is_source, as arrays of NumPy.

    All processes call it.
    """
    from jax.experimental import multihost_utils

    return multihost_utils.broadcast_one_to_all(in_tree, is_source)


def is_jax_distributed_client_initialized() -> bool:
    """Whether jax.distributed is initialized."""
    return has_jax_distributed()


def process_index_from_device(device: Any) -> int:
    """The process that a device belongs to, numbered as in process_index().

    With Orbax's flag, raises ValueError unless initialize_runtime_to_distributed_ids() was called.
    """
    number = int(device.process_index)
    return runtime_to_distributed_process_id(number) if use_distributed_process_id() else number


def unique_processes_from_devices(device_array: Any) -> "set[int]":
    """The processes that the devices of an array of NumPy belong to."""
    return {process_index_from_device(device) for device in device_array.flat}


def should_skip_process_sync(processes: "set[int] | None" = None) -> bool:
    """Whether there is nobody to wait for: one process, or `processes` is this one alone."""
    return process_count() == 1 or processes == {process_index()}


def _is_not_pathways() -> bool:
    """False: Pathways is not available."""
    return False


is_pathways_backend = _is_not_pathways
is_pathways_controller = _is_not_pathways
is_pathways_colocated_runtime_active = _is_not_pathways
is_proxy_pathways_backend = _is_not_pathways
is_native_pathways_backend = _is_not_pathways
is_cloud_pathways_persistence_enabled = _is_not_pathways
