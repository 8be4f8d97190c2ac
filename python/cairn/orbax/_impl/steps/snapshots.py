"""Snapshots of steps, which stay when the step is removed: second names for their files, or, in a
store, copies."""

import contextlib
import errno
import fcntl
import logging
import os
import shutil
from collections.abc import Iterator
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.base import processes
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.paths.store_path import is_store_url
from cairn.orbax._impl.steps.deletion import remove_steps
from cairn.orbax._impl.stored.atomicity import Atomicity

SNAPSHOTS = "_SNAPSHOTS"  # beside the steps
_PENDING = ".cairn-tmp"

_log = logging.getLogger("cairn.orbax")

# Where a link cannot be made, the file is copied: another file system, one without links, or a
# file with too many.
_NO_LINK = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def snapshot_of(step_dir: Any, snapshot_dir: Any = None) -> Any:
    """Where the snapshot of a step's directory is, or would be."""
    step = as_path(step_dir)
    above = step.parent / SNAPSHOTS if snapshot_dir is None else as_path(snapshot_dir)
    return above / step.name


@contextlib.contextmanager
def held(step_dir: Any, snapshot_dir: Any, ignore_errors: bool) -> "Iterator[None]":
    """A context in which the step has a snapshot, which process 0 makes and removes.

    Raises ValueError if the directory of snapshots cannot be made, and FileNotFoundError if the
    step or the snapshot disappears, unless ignore_errors is set. A directory that was there before
    is removed, too, as in Orbax; but FileExistsError if it is not one of a checkpoint. The snapshot
    of a step in a store is in the same bucket.
    """
    if processes.process_index() != 0:
        yield
        return
    snapshot = snapshot_of(step_dir, snapshot_dir)
    is_own = False
    with _ignoring(ignore_errors):
        is_own = _make(as_path(step_dir), snapshot)
    try:
        yield
    finally:
        with _ignoring(ignore_errors):
            if is_store_url(snapshot):
                _remove_copy(snapshot)
            elif not is_own and snapshot.exists():
                remove_steps([snapshot])
            else:
                shutil.rmtree(snapshot)


@contextlib.contextmanager
def _ignoring(ignore_errors: bool) -> "Iterator[None]":
    try:
        yield
    except FileNotFoundError as error:
        if not ignore_errors:
            raise
        _log.warning("a step has no snapshot: %s", error)


def _make(step: Any, snapshot: Any) -> bool:
    """Makes the snapshot. Returns False if it was there: of another reader, or a killed one."""
    if is_store_url(step) or is_store_url(snapshot):
        return _copy(step, snapshot)
    try:
        os.makedirs(snapshot.parent, exist_ok=True)
    except OSError as error:
        raise ValueError(
            f"{snapshot.parent}: cannot make the directory of snapshots; give snapshot_dir"
        ) from error
    with _alone_in(snapshot.parent):
        if snapshot.exists():
            return False
        pending = snapshot.parent / (snapshot.name + _PENDING)
        shutil.rmtree(pending, ignore_errors=True)  # of a killed reader: nobody else is here
        try:
            _link_files(os.fspath(step), os.fspath(pending))
            os.rename(pending, snapshot)
        except BaseException:
            shutil.rmtree(pending, ignore_errors=True)
            raise
    return True


def _copy(step: Any, snapshot: Any) -> bool:
    if Atomicity().at(snapshot).is_complete(snapshot):
        return False
    remove_steps([snapshot])  # what a killed reader has left, if there is anything
    _cairn.copy_checkpoint(os.fspath(step), os.fspath(snapshot))
    return True


def _remove_copy(snapshot: Any) -> None:
    if not snapshot.exists():
        raise FileNotFoundError(f"{snapshot}: has been removed")
    remove_steps([snapshot])


@contextlib.contextmanager
def _alone_in(directory: Any) -> "Iterator[None]":
    """Waits until no other reader makes a snapshot in the directory."""
    descriptor = os.open(os.fspath(directory), os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _link_files(source: str, target: str) -> None:
    os.mkdir(target)
    with os.scandir(source) as entries:
        for entry in entries:
            to = os.path.join(target, entry.name)
            if entry.is_dir():
                _link_files(entry.path, to)
            else:
                _link(os.path.realpath(entry.path), to)


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise
        shutil.copy2(source, target)


def get_snapshot_dir_from_step_dir(step_dir: Any, snapshot_dir: Any = None) -> Any:
    """Where the snapshot of a step is: in snapshot_dir, or in _SNAPSHOTS beside the step."""
    return snapshot_of(step_dir, snapshot_dir)
