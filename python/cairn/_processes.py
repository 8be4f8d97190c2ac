"""Several processes that save together: how they reach each other.

A coordinator is an object with

    process_index, process_count: int
    all_gather(name: str, value: bytes, timeout: float) -> list[bytes]

all_gather returns the values of all processes, in their order. All processes call it with the same
name, and no name is used twice. It raises OSError if they do not arrive within `timeout` seconds.
Threads of the library call it, for several names at once. The object may also have

    abort(name: str, why: str): makes the all_gather of that name fail in all processes
    cancel(name: str): makes the all_gather of that name that this process waits in fail
"""

from __future__ import annotations

import atexit
import itertools
import sys
import threading
import time
import weakref

from cairn._long_calls import wait_for_all
from cairn._store_coordinator import StoreCoordinator

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from typing import Any

_WRITE_FACTOR = 4  # how much longer steps take in which processes write


# ---- the stores ----


class _JaxStore:
    """The key-value store of jax.distributed."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self._prefix = "cairn/"

    def create(self, key: str, value: bytes) -> bool:
        try:
            self._client.key_value_set_bytes(self._prefix + key, value)
        except RuntimeError as error:
            if "ALREADY_EXISTS" in str(error):
                return False
            raise _unavailable("jax.distributed", error) from None
        return True

    def get(self, key: str, seconds: float) -> Any:
        try:
            # A wait of a millisecond may end before the service has answered.
            if seconds <= 0 and hasattr(self._client, "key_value_try_get_bytes"):
                return self._client.key_value_try_get_bytes(self._prefix + key)
            return self._client.blocking_key_value_get_bytes(
                self._prefix + key, max(1, int(seconds * 1000))
            )
        except RuntimeError as error:
            if "DEADLINE_EXCEEDED" in str(error) or "NOT_FOUND" in str(error):
                return None
            raise _unavailable("jax.distributed", error) from None

    def delete(self, key: str) -> None:
        self._client.key_value_delete(self._prefix + key)


class _TorchStore:
    """The store of torch.distributed's default group. It is asked again and again: a call of it
    that waits would block the other threads of this process."""

    def __init__(self, store: Any, rank: int) -> None:
        self._store = store
        # A group that is made again may have the same store.
        self._prefix = f"cairn/{store.add(f'cairn/sessions/{rank}', 1)}/"

    def create(self, key: str, value: bytes) -> bool:
        with _Torch():
            return bool(self._store.compare_set(self._prefix + key, "", value) == value)

    def get(self, key: str, seconds: float) -> Any:
        deadline = time.monotonic() + seconds
        pause = 0.0005
        with _Torch():
            while not self._store.check([self._prefix + key]):
                left = deadline - time.monotonic()
                if left <= 0:
                    return None
                time.sleep(min(pause, left))
                pause = min(pause * 1.5, 0.05)
            return self._store.get(self._prefix + key)

    def delete(self, key: str) -> None:
        with _Torch():
            self._store.delete_key(self._prefix + key)


class _Torch:
    """Errors of the store as OSError."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, RuntimeError):
            raise _unavailable("torch.distributed", error) from None


def _unavailable(engine: str, error: Exception) -> OSError:
    return OSError(f"{engine} cannot reach the other processes: {str(error).splitlines()[0]}")


# ---- which coordinator ----


class _Session:
    """A coordinator, and the number of the next job that uses it."""

    def __init__(self, coordinator: Any) -> None:
        self.coordinator = coordinator
        self.jobs = itertools.count()


_engines: dict[str, tuple[Any, _Session]] = {}  # by name, with the client or store it is for
_given: weakref.WeakKeyDictionary[Any, _Session] = weakref.WeakKeyDictionary()


def has_jax_distributed() -> bool:
    """Whether the program has initialized jax.distributed."""
    jax = sys.modules.get("jax")
    if jax is None:
        return False
    if hasattr(jax.distributed, "is_initialized"):
        return bool(jax.distributed.is_initialized())
    return jax._src.distributed.global_state.client is not None  # before JAX 0.4.36


def _jax_state() -> Any:
    """The state of jax.distributed in a job of several processes; else None."""
    if not has_jax_distributed():
        return None
    state = sys.modules["jax"]._src.distributed.global_state
    return state if (state.num_processes or 1) > 1 else None


def _torch_distributed() -> Any:
    """torch.distributed in a job of several processes; else None."""
    torch = sys.modules.get("torch.distributed")
    if torch is None or not torch.is_available() or not torch.is_initialized():
        return None
    return torch if torch.get_world_size() > 1 else None


def _engine(name: str, peer: Any, make: Any) -> _Session:
    known = _engines.get(name)
    if known is None or known[0] is not peer:
        known = _engines[name] = (peer, _Session(make()))
        # Saves in the background end before jax.distributed does, whose own function was
        # registered before.
        atexit.register(wait_for_all)
    return known[1]


def _over_jax(state: Any) -> _Session:
    return _engine(
        "jax",
        state.client,
        lambda: StoreCoordinator(_JaxStore(state.client), state.process_id, state.num_processes),
    )


def _over_torch(distributed: Any) -> _Session:
    store = distributed.distributed_c10d._get_default_store()
    if store is None:
        raise ValueError(
            "torch.distributed has no store (its backend is MPI); pass coordinator= an object with "
            "process_index, process_count and all_gather"
        )
    rank, count = distributed.get_rank(), distributed.get_world_size()
    return _engine("torch", store, lambda: StoreCoordinator(_TorchStore(store, rank), rank, count))


def _session(coordinator: Any) -> _Session | None:
    if coordinator is None:
        state, distributed = _jax_state(), _torch_distributed()
        if state is not None:
            return _over_jax(state)
        return None if distributed is None else _over_torch(distributed)
    if not isinstance(coordinator, str):
        return _session_of(coordinator)
    if coordinator == "none":
        return None
    if coordinator == "jax":
        state = _jax_state()
        return None if state is None else _over_jax(state)
    if coordinator == "torch":
        distributed = _torch_distributed()
        return None if distributed is None else _over_torch(distributed)
    raise ValueError(f"coordinator: {coordinator!r} is not 'jax', 'torch' or 'none'")


def _session_of(coordinator: Any) -> _Session:
    for member in ("process_index", "process_count", "all_gather"):
        if not hasattr(coordinator, member):
            raise TypeError(f"coordinator: {type(coordinator).__qualname__} has no {member}")
    if coordinator not in _given:
        _given[coordinator] = _Session(coordinator)
        atexit.register(wait_for_all)
    return _given[coordinator]


class Job:
    """One save, or one manager. Its names differ from those of every other."""

    def __init__(self, coordinator: Any, prefix: str, timeout: float, parent: str = "") -> None:
        self._coordinator = coordinator
        self._prefix = prefix
        self._parent = parent
        self._lock = threading.Lock()
        self._rounds: dict[str, int] = {}
        self._open: set[str] = set()
        self.process_index = int(coordinator.process_index)
        self.process_count = int(coordinator.process_count)
        self.timeout = float(timeout)
        self.write_timeout = _WRITE_FACTOR * self.timeout

    def all_gather(self, name: str, value: bytes, timeout: float) -> Any:
        return self.gather(self.begin(name), value, timeout)

    def abort(self, name: str, why: str) -> None:
        if hasattr(self._coordinator, "abort"):
            self._coordinator.abort(self.begin(name), why)

    def unique_id(self) -> str:
        """A word that is the same in all processes, and another one for every job."""
        import hashlib

        return hashlib.sha256(self._prefix.encode()).hexdigest()[:12]

    def cancel(self) -> None:
        with self._lock:
            names = list(self._open)
        if hasattr(self._coordinator, "cancel"):
            for name in names:
                self._coordinator.cancel(name)

    # ---- an all_gather in parts: its name, what a process does before, and the gathering ----

    def begin(self, name: str) -> str:
        """The whole name of the next all_gather of this name."""
        with self._lock:
            number = self._rounds.get(name, 0)
            self._rounds[name] = number + 1
        return f"{self._prefix}{name}/{number}"

    def gather(self, full: str, value: bytes, timeout: float) -> Any:
        """The all_gather of a whole name."""
        above = (self._parent,) if self._parent else ()
        with self._lock:
            self._open.add(full)
        try:
            return self._coordinator.all_gather(full, value, timeout, *above)
        finally:
            with self._lock:
                self._open.discard(full)

    def decide(self, full: str, reason: str) -> None:
        """Makes the all_gather of a whole name fail for this reason, unless it has ended."""
        self._coordinator.decide(full, reason)

    def within(self, full: str, number: int) -> Job:
        """A job of what the processes do before they gather; it fails when the gathering does."""
        # Not below `full`, because jax.distributed removes keys with all below them.
        return Job(self._coordinator, f"{full}#{number}/", self.timeout, full)


def job(coordinator: Any, timeout: float) -> Job | None:
    """The job that the argument `coordinator` of a save names; None: this process alone."""
    session = _session(coordinator)
    if session is None or int(session.coordinator.process_count) <= 1:
        return None
    return Job(session.coordinator, f"{next(session.jobs)}/", timeout)
