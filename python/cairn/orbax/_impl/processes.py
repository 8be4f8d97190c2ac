"""What is known of other processes. cairn.orbax saves and restores in one process."""

import sys


def process_index() -> int:
    """The number of this process."""
    jax = sys.modules.get("jax")
    return int(jax.process_index()) if jax is not None else 0


def check_one_process() -> None:
    """Raises NotImplementedError if jax.distributed has several processes."""
    jax = sys.modules.get("jax")
    if jax is None or not jax.distributed.is_initialized():
        return
    if jax.process_count() > 1:
        raise NotImplementedError(
            "cairn.orbax does not save from several processes yet; the C++ library does "
            "(docs/distributed.md)"
        )


def is_primary_host(primary_host: "int | None") -> bool:
    """Whether this process does what only one process does."""
    return primary_host is None or process_index() == primary_host
