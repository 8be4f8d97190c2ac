"""Other processes: those of jax.distributed."""

import sys
from typing import Any

from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax._impl.processes import Group, is_primary_host, process_index, reached_preemption

__getattr__ = _hints(
    __name__,
    dict.fromkeys(
        ("get_barrier_sync_fn", "global_max", "is_pathways_backend", "unique_barrier_key"),
        "call sync_global_processes",
    ),
)

_group = Group()


def process_count() -> int:
    """How many processes there are."""
    jax = sys.modules.get("jax")
    return int(jax.process_count()) if jax is not None else 1


def sync_global_processes(name: str, **options: Any) -> None:
    """Waits for the other processes. `options` are of barriers that Orbax may use instead."""
    _group.step(f"sync: {name}", lambda: None)


def broadcast_one_to_all(in_tree: Any, is_source: "bool | None" = None) -> Any:
    """The tree of the first process. Raises NotImplementedError if there are others."""
    if process_count() > 1:
        raise NotImplementedError("use jax.experimental.multihost_utils.broadcast_one_to_all")
    return in_tree


__all__ = [
    "broadcast_one_to_all",
    "is_primary_host",
    "process_count",
    "process_index",
    "reached_preemption",
    "sync_global_processes",
]
