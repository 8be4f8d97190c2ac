"""Other processes: those of jax.distributed or torch.distributed save together."""

import builtins
import contextlib
import contextvars
import itertools
import json
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

from cairn import _save
from cairn._processes import has_jax_distributed
from cairn.orbax._impl.base.events import duration
from cairn.orbax._impl.base.flags import use_distributed_process_id

_TIMEOUT = 300.0  # seconds, of Cairn's own saves, too
_LONGEST_TEXT = 4000
_WAIT_EVENT = "/jax/checkpoint/sync_global_devices_duration_sec"
WRITE_TIMEOUT = 1200.0  # while others write


def process_index() -> int:
    """The number of this process: that of JAX, or with Orbax's flag that of jax.distributed."""
    jax = sys.modules.get("jax")
    if jax is None:
        return 0
    if use_distributed_process_id():
        return int(jax._src.distributed.global_state.process_id)
    return int(jax.process_index())


def process_count() -> int:
    """How many processes there are."""
    jax = sys.modules.get("jax")
    return int(jax.process_count()) if jax is not None else 1


def require_one(who: str) -> None:
    """Raises NotImplementedError in a run of several processes of jax.distributed."""
    jax = sys.modules.get("jax")
    count = jax.process_count() if jax is not None else 1
    if count > 1:
        raise NotImplementedError(
            f"cairn.orbax: {who} save in one process; this run has {count} processes"
        )


def is_primary_host(primary_host: "int | None") -> bool:
    """Whether this process does what only one process does."""
    return primary_host is None or process_index() == primary_host


def reached_preemption(step: int) -> bool:
    """Whether the platform is about to end a process of jax.distributed, and this is the step at
    which all of them save. JAX is told by its coordination service."""
    if not has_jax_distributed():
        return False
    from jax.experimental import multihost_utils

    try:
        return bool(multihost_utils.reached_preemption_sync_point(step))
    except RuntimeError:  # the service has been disabled
        return False


class _Step:
    """A step that goes on, and how many jobs have been asked for in it."""

    def __init__(self, joined: Any, full: str) -> None:
        self._joined = joined
        self._full = full
        self._numbers = itertools.count()

    def job(self) -> Any:
        """A job that ends when another process fails in the step."""
        return self._joined.within(self._full, next(self._numbers))


_current: "contextvars.ContextVar[_Step | None]" = contextvars.ContextVar("step", default=None)


def job() -> Any:
    """The job of several processes in which this one saves; None if there is none."""
    step = _current.get()
    return _save.processes(None, _TIMEOUT) if step is None else step.job()


def require_step(who: str) -> None:
    """Raises NotImplementedError in a run of several processes, unless a checkpointer saves."""
    if _current.get() is None:
        require_one(f"outside of a checkpointer, {who}")


_barrier_suffix = ""


@contextlib.contextmanager
def barriers_named(suffix: str) -> "Iterator[None]":
    """Within the block, the names of all barriers end with a suffix.

    Barriers of a name are counted, and the counts of processes that do not all run the same blocks
    differ only for the suffixes of these blocks.
    """
    global _barrier_suffix
    before, _barrier_suffix = _barrier_suffix, suffix
    try:
        yield
    finally:
        _barrier_suffix = before


class Group:
    """The processes that save together. It is known at the first step which these are."""

    def __init__(self, options: Any = None) -> None:
        self._primary = getattr(options, "primary_host", 0)
        self._active = getattr(options, "active_processes", None)
        self._job: Any = None

    def _joined(self) -> Any:
        if self._job is None:
            self._job = _save.processes(None, _TIMEOUT)
        return self._job

    def _check_options(self) -> None:
        """Raises for options that cairn.orbax does not have. The other processes learn of it."""
        if self._primary != 0:
            raise NotImplementedError(
                "MultiprocessingOptions.primary_host: process 0 is the primary in cairn.orbax"
            )
        if self._active is not None:
            raise NotImplementedError(
                "MultiprocessingOptions.active_processes: all processes save together; "
                "cairn.save(..., coordinator='none') saves from one"
            )

    def is_primary(self) -> bool:
        """Whether this process does the work that is done once."""
        return process_index() == 0

    def step(
        self,
        name: str,
        work: "Callable[[], Any]",
        *,
        everywhere: bool = False,
        timeout: float = _TIMEOUT,
    ) -> Any:
        """Does the work in process 0, or in all, and waits for all.

        Returns what it returned in process 0, which must be a value of JSON. An error of one
        process is raised in all of them, and ends what they do for the step together.
        """
        return self._meet(name, work, everywhere, timeout)[0]

    def gather(self, name: str, work: "Callable[[], Any]") -> "list[Any]":
        """Like a step that all take: returns the values of all processes, in their order."""
        return self._meet(name, work, True, _TIMEOUT)

    def _meet(
        self, name: str, work: "Callable[[], Any]", everywhere: bool, timeout: float
    ) -> "list[Any]":
        joined = self._joined()
        if joined is None:
            return [work()]
        full = joined.begin(f"orbax: {name}{_barrier_suffix}")
        value: Any = None
        error: BaseException | None = None
        token = _current.set(_Step(joined, full))
        try:
            self._check_options()
            if everywhere or joined.process_index == 0:
                value = work()
        except BaseException as raised:  # raised again when the others know
            error = raised
            joined.decide(full, _described(joined.process_index, raised))
        finally:
            _current.reset(token)
        begin = time.time()
        try:
            replies = joined.gather(full, json.dumps(value).encode(), timeout)
        except OSError as failure:
            raise _chosen(name, joined.process_index, error, str(failure)) from error
        finally:
            duration(_WAIT_EVENT, time.time() - begin)
        if error is not None:
            raise error  # the others had ended the step before
        return [json.loads(reply) for reply in replies]


def _described(process: int, error: BaseException) -> str:
    return json.dumps([process, type(error).__name__, str(error)[:_LONGEST_TEXT]])


def _chosen(name: str, process: int, own: "BaseException | None", reason: str) -> BaseException:
    """What a process raises: its own error, unless that is the other's that ended the step."""
    if not reason.startswith("["):
        return own or OSError(f"'{name}': {reason}")
    failed, kind, text = json.loads(reason)
    if failed == process or (own is not None and reason not in str(own)):
        assert own is not None
        return own
    found = getattr(builtins, kind, None)
    known = (ValueError, TypeError, KeyError, NotImplementedError, RuntimeError, OSError)
    chosen = found if isinstance(found, type) and issubclass(found, known) else OSError
    return chosen(f"process {failed}: {text}")


_everyone = Group()


def sync_global_processes(name: str, **options: Any) -> None:
    """Waits for the other processes. `options` are of barriers that Orbax may use instead."""
    _everyone.step(f"sync: {name}", lambda: None)


def sync_global_devices(name: str, **options: Any) -> None:
    """Waits for the other processes."""
    sync_global_processes(name, **options)


def is_pathways_backend() -> bool:
    """False: Pathways is not available."""
    return False
