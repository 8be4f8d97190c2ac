"""Removes steps, and what unfinished saves have left. It never removes other directories."""

import datetime
import logging
import os
import time
from collections.abc import Callable
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.base import monitoring
from cairn.orbax._impl.base.background import Background
from cairn.orbax._impl.paths.store_path import is_store_url
from cairn.orbax._impl.steps.step_names import find_step_path

_log = logging.getLogger("cairn.orbax")


def remove_steps(paths: "list[Any]", remove: "Callable[[Any], None] | None" = None) -> None:
    """Removes each step, or does with it what a function does.

    Files of others in a step go with it, as in Orbax. Raises FileExistsError for a directory
    without the files of a checkpoint. The other steps are removed before.
    """
    refused = None
    for path in paths:
        begin = time.time()
        try:
            (remove or _remove)(path)
            monitoring.step_removed(time.time() - begin)
        except OSError as error:
            refused = refused or error
    if refused is not None:
        raise refused


def _remove(path: Any, is_in_place: bool = False) -> None:
    _cairn.remove_checkpoint(os.fspath(path), is_in_place)


def bucket_of(path: Any) -> Any:
    """The bucket of a path in a store."""
    return path.parents[-3]  # after "/" and the scheme


def time_suffix() -> str:
    """The time now, for the name of a step that is moved. Orbax adds it, too."""
    return datetime.datetime.now(tz=datetime.timezone.utc).strftime("%Y%m%d-%H%M%S-%f")


def trash_folder(directory: Any, bucket_path: "str | None") -> Any:
    """The folder where todelete_full_path, a path in the bucket, wants what is removed.

    None: it is removed for good. Raises NotImplementedError for a local directory, and ValueError
    for what cannot be a path in a bucket.
    """
    if bucket_path is None:
        return None
    if not is_store_url(directory):
        raise NotImplementedError("todelete_full_path is for object stores")
    parts = bucket_path.split("/")
    if not bucket_path or not parts[0] or ".." in parts or "://" in bucket_path:
        raise ValueError(f"todelete_full_path must be a path in the bucket, not {bucket_path!r}")
    return bucket_of(directory) / bucket_path


def move_to_trash(path: Any, trash: Any, suffix: str) -> None:
    """Moves a checkpoint in a store to a folder of its bucket, as NAME-SUFFIX.

    A store cannot rename: everything is copied, and then removed here.
    """
    _cairn.copy_checkpoint(os.fspath(path), os.fspath(trash / f"{path.name}-{suffix}"))
    _remove(path)


def remove_unfinished(directory: Any) -> None:
    """Removes what interrupted saves have left, unless a save is in progress."""
    # The directory is the manager's, so files of others go with what is removed, as in Orbax.
    _cairn.clean_json(os.fspath(directory), dry_run=False, foreign=True)


class StepRemoval:
    """Removes steps of a manager, at once or in the background."""

    def __init__(
        self,
        directory: Any,
        name_format: Any,
        subdirectory: "str | None",
        bucket_path: "str | None",
        in_background: bool,
        is_in_place: bool,
    ) -> None:
        """subdirectory: where steps of a local directory go. bucket_path: the same for a store.

        As in Orbax, a store ignores `subdirectory`. Raises as trash_folder().
        """
        self._directory = directory
        self._format = name_format
        self._in_background = in_background
        self._is_in_place = is_in_place
        self._trash = trash_folder(directory, bucket_path)
        self._subdirectory = subdirectory
        self.background = Background("cairn-orbax-delete")
        if subdirectory is not None and is_store_url(directory):
            self._subdirectory = None
            _log.warning("%s: todelete_subdir has no effect here; steps are removed", directory)

    def remove(self, steps: "list[int]") -> None:
        """Removes steps. In the background, self.background has the error."""
        if not steps:
            return
        paths = [path for path in map(self._find, steps) if path is not None]

        def work() -> None:
            remove_steps(paths, self._remove)

        if self._in_background:
            self.background.start(work)
        else:
            work()

    def _find(self, step: int) -> Any:
        """The path of a step; in a store also one that is not complete. None: it is gone."""
        is_in_store = is_store_url(self._directory)
        try:
            return find_step_path(
                self._directory, self._format, step=step, include_uncommitted=is_in_store
            )
        except ValueError:
            if not is_in_store:
                raise
            _log.warning("%s: step %s is not there to be removed", self._directory, step)
            return None

    def _remove(self, path: Any) -> None:
        if self._trash is not None:
            move_to_trash(path, self._trash, time_suffix())
        elif self._subdirectory is not None:
            _cairn.set_checkpoint_aside(os.fspath(path), self._subdirectory)
        else:
            _remove(path, self._is_in_place)
