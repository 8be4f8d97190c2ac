"""Checkpointer and AsyncCheckpointer: atomic saves of what a handler writes."""

import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

from cairn.orbax._impl.base import asyncs, events, monitoring, options, processes
from cairn.orbax._impl.base.background import Background
from cairn.orbax._impl.base.futures import ChainedFuture
from cairn.orbax._impl.base.time_limits import TimeLimit
from cairn.orbax._impl.commit.pending_checkpoint import Commit, JoinedCommit
from cairn.orbax._impl.handlers import args as arguments
from cairn.orbax._impl.handlers.composite_handler import CompositeCheckpointHandler
from cairn.orbax._impl.handlers.handler import AsyncCheckpointHandler, CheckpointHandler
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.paths.object_stores import listed_once
from cairn.orbax._impl.paths.permissions import mode_of
from cairn.orbax._impl.stored.atomicity import Atomicity
from cairn.orbax._impl.stored.step_metadata import StepMetadata, read_step_metadata


class AbstractCheckpointer:
    """The interface of checkpointers: save(), restore(), metadata() and close()."""

    def save(self, directory: Any, *args: Any, **kwargs: Any) -> None:
        """Saves a checkpoint."""
        raise NotImplementedError

    def restore(self, directory: Any, *args: Any, **kwargs: Any) -> Any:
        """Restores a checkpoint."""
        raise NotImplementedError

    def metadata(self, directory: Any) -> Any:
        """The metadata of a checkpoint."""
        raise NotImplementedError

    def structure(self, directory: Any) -> Any:
        """The structure of a checkpoint. Deprecated."""
        raise NotImplementedError

    def close(self) -> None:
        """Ends all work."""
        raise NotImplementedError


class Checkpointer(AbstractCheckpointer):
    """Saves and restores one checkpoint. It appears complete or not at all, and is durable then."""

    def __init__(
        self,
        handler: CheckpointHandler,
        *,
        multiprocessing_options: "options.MultiprocessingOptions | None" = None,
        file_options: "options.FileOptions | None" = None,
        atomicity_options: "options.AtomicityOptions | None" = None,
        checkpoint_metadata_store: Any = None,
        temporary_path_class: Any = None,
    ) -> None:
        self._file_options = file_options
        if checkpoint_metadata_store is not None:
            raise NotImplementedError(
                "checkpoint_metadata_store: the metadata of a checkpoint are always written"
            )
        self._atomicity = Atomicity(atomicity_options, temporary_path_class)
        self._handler = arguments.wrapped(handler)
        self._group = processes.Group(multiprocessing_options)
        self._write_timeout: float = processes.WRITE_TIMEOUT
        kind = "async_checkpointer" if isinstance(self, AsyncCheckpointer) else "checkpointer"
        events.event(f"/jax/orbax/{kind}/init")

    @property
    def handler(self) -> CheckpointHandler:
        """The handler."""
        return self._handler

    def save(
        self,
        directory: Any,
        *args: Any,
        force: bool = False,
        custom_metadata: "dict[str, Any] | None" = None,
        **kwargs: Any,
    ) -> None:
        """Saves a checkpoint and waits until it is durable.

        Args:
          directory: its path.
          *args: the handler's arguments: an object of CheckpointArgs, or what makes one.
          force: replace an older checkpoint; it stays until the new one is complete.
          custom_metadata: a dict for JSON, stored with the checkpoint.
          **kwargs: as *args.

        Raises:
          ValueError: the path exists.
        """
        record = monitoring.SaveRecord(is_async=False)
        record.started()
        commit, made = self._begin(record, directory, force, custom_metadata, args, kwargs)
        try:
            self._write(lambda: self._handler.save(commit.directory, args=made))
            record.blocked()
            begin = time.time()
            self._group.step("finish", lambda: _finish(self._handler, commit))
            record.finished(time.time() - begin)
        except BaseException:
            commit.abandon()
            raise

    def _begin(
        self,
        record: monitoring.SaveRecord,
        directory: Any,
        force: bool,
        custom_metadata: Any,
        args: Any,
        kwargs: Any,
    ) -> "tuple[Any, Any]":
        """The directory to write to, which process 0 makes, and the arguments of the handler."""
        commit: Any = None
        made: Any = None

        is_async = isinstance(self, AsyncCheckpointer)

        def begin() -> "tuple[str, bool]":
            nonlocal commit, made
            if self._group.is_primary():
                commit = Commit(
                    directory,
                    force,
                    custom_metadata,
                    self._atomicity,
                    mode_of(self._file_options),
                )
            made = arguments.construct(self._handler, True, args, kwargs)
            if commit is None:
                return "", is_async
            begun = time.time()
            commit.create()
            record.directory_made(time.time() - begun)
            return str(commit.directory), is_async

        entered = time.time()
        try:
            replies = self._group.gather("begin", begin)
            _check_kinds([kind for _, kind in replies])
        except BaseException:
            if commit is not None:
                commit.abandon()
            raise
        if commit is None:
            record.directory_awaited(time.time() - entered)
        return commit or JoinedCommit(replies[0][0]), made

    def _write(self, work: "Callable[[], Any]") -> None:
        """Has all processes write, and waits for them."""

        def write() -> None:
            work()

        self._group.step("write", write, everywhere=True, timeout=self._write_timeout)

    def restore(self, directory: Any, *args: Any, **kwargs: Any) -> Any:
        """Restores a checkpoint with the handler's arguments.

        Raises FileNotFoundError if there is none, ValueError for an unfinished one.
        """
        directory = as_path(directory)
        with listed_once(directory):
            return self._restore(directory, args, kwargs)

    def _restore(self, directory: Any, args: Any, kwargs: Any) -> Any:
        record = monitoring.RestoreRecord()
        if not directory.exists():
            raise FileNotFoundError(f"Checkpoint at {directory} not found.")
        if not self._atomicity.at(directory).is_complete(directory):
            raise ValueError(f"Found incomplete checkpoint at {directory}.")
        made = arguments.construct(self._handler, False, args, kwargs)
        restored = self._handler.restore(directory, args=made)
        record.finished()
        return restored

    def structure(self, directory: Any) -> Any:
        """None, as in Orbax, which deprecates it: metadata() has the structure."""
        return None

    def get_temporary_path(self, directory: Any) -> Any:
        """Where a save to a path writes, and how it completes."""
        return self._atomicity.at(directory).path_class.from_final(
            directory, file_options=self._file_options
        )

    async def create_temporary_path(self, temporary_path: Any) -> None:
        """Makes the directory of get_temporary_path(), in process 0."""
        if self._group.is_primary():
            await temporary_path.create()
        self._group.step("create", lambda: None)

    def synchronize_next_awaitable_signal_operation_id(self) -> None:
        """Waits for the other processes. Saves have no signals to number."""
        self._group.step("signals", lambda: None)

    def metadata(self, directory: Any) -> StepMetadata:
        """The metadata of a checkpoint. item_metadata is None where the handler has none."""
        directory = as_path(directory)
        with listed_once(directory):
            return self._metadata(directory)

    def _metadata(self, directory: Any) -> StepMetadata:
        if isinstance(self._handler, CompositeCheckpointHandler):
            return self._handler.metadata(directory)
        step = read_step_metadata(directory)
        try:
            step.item_metadata = self._handler.metadata(directory)
        except (FileNotFoundError, NotImplementedError, ValueError, TypeError):
            step.item_metadata = None
        return step

    def close(self) -> None:
        """Closes the handler."""
        self._handler.close()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _check_kinds(are_async: "list[bool]") -> None:
    """Raises ValueError unless all processes take the same steps."""
    for process, is_async in enumerate(are_async):
        if is_async != are_async[0]:
            kinds = ["a Checkpointer", "an AsyncCheckpointer"]
            raise ValueError(
                f"process {process} saves with {kinds[is_async]}, process 0 with "
                f"{kinds[are_async[0]]}; all need the same (enable_async_checkpointing)"
            )


def _finish(handler: CheckpointHandler, commit: Commit) -> None:
    typestrs: Any
    if isinstance(handler, CompositeCheckpointHandler):
        typestrs = handler.item_typestrs(handler.written_items())
    else:
        typestrs = handler.typestr()
    handler.finalize(commit.directory)
    commit.finish(typestrs)


class AsyncCheckpointer(Checkpointer):
    """Saves in the background, one save at a time.

    An error of the background is raised once, by the next save(), restore(), check_for_errors(),
    wait_until_finished() or close().
    """

    def __init__(
        self,
        handler: AsyncCheckpointHandler,
        timeout_secs: "int | None" = None,
        *,
        async_options: "options.AsyncOptions | None" = None,
        multiprocessing_options: "options.MultiprocessingOptions | None" = None,
        file_options: "options.FileOptions | None" = None,
        atomicity_options: "options.AtomicityOptions | None" = None,
        checkpoint_metadata_store: Any = None,
        temporary_path_class: Any = None,
    ) -> None:
        super().__init__(
            handler,
            multiprocessing_options=multiprocessing_options,
            file_options=file_options,
            atomicity_options=atomicity_options,
            checkpoint_metadata_store=checkpoint_metadata_store,
            temporary_path_class=temporary_path_class,
        )
        self._async_options = async_options or options.AsyncOptions()
        self._write_timeout = timeout_secs or self._async_options.timeout_secs
        if self._write_timeout <= 0:
            raise ValueError(f"Timeout must be positive, but got {self._write_timeout} seconds.")
        # A manager also uses these two.
        self._background = Background("cairn-orbax-save")
        self._after_commit: Callable[[], None] | None = None  # called in the thread of each save
        self._futures: list[Any] = []
        self._is_cancelled = False
        self._is_closed = False

    def save(
        self,
        directory: Any,
        *args: Any,
        force: bool = False,
        custom_metadata: "dict[str, Any] | None" = None,
        **kwargs: Any,
    ) -> None:
        """Starts a save. Returns when everything is copied that the caller may change.

        Waits for the save before. Arguments as those of Checkpointer.save(). Raises RuntimeError
        after close().
        """
        record = monitoring.SaveRecord(is_async=True)
        record.started()
        self.wait_until_finished()
        record.waited(time.time() - record.start)
        if self._is_closed:
            raise RuntimeError(f"{directory}: the checkpointer is closed and cannot save")
        commit, made = self._begin(record, directory, force, custom_metadata, args, kwargs)
        handler: Any = self._handler
        futures: list[Any] = []
        self._is_cancelled = False
        limit = TimeLimit(as_path(directory), self._write_timeout)

        def start() -> None:
            with limit.around():
                futures.extend(asyncs.run(handler.async_save(commit.directory, args=made)) or [])

        try:
            self._group.step("start", start, everywhere=True)
            self._futures = futures
            self._background.start(lambda: self._end(commit, futures, limit, record))
        except BaseException:
            if not self._background.is_running():
                commit.abandon()
            else:  # Ctrl-C; the thread removes what was written
                self.cancel()
            raise
        record.blocked()

    def _end(
        self,
        commit: Any,
        futures: "list[Any]",
        limit: TimeLimit,
        record: monitoring.SaveRecord,
    ) -> None:
        """All that is left of a save, in its thread."""
        begin = time.time()
        try:
            written = ChainedFuture(futures, lambda: None)
            with limit.around():
                self._write(lambda: written.result(self._write_timeout))
            if self._is_cancelled:
                raise CancelledError
            record.written(len(futures), time.time() - begin)
            finishing = time.time()
            self._group.step("finish", lambda: _finish(self._handler, commit))
        except BaseException:
            commit.abandon()
            if self._is_cancelled:
                return
            raise
        record.finished(time.time() - finishing)
        record.thread_ended(time.time() - begin)
        for call in (self._async_options.post_finalization_callback, self._after_commit):
            if call is not None:
                call()

    def cancel(self) -> None:
        """Asks the save in the background to stop. Does not wait.

        wait_until_finished() then raises nothing, and there is no checkpoint, unless it has been
        complete before. If one of several processes cancels, it ends the save of all, and the
        others raise an error.
        """
        if not self._background.is_running():
            return
        self._is_cancelled = True
        for future in self._futures:
            cancel = getattr(future, "cancel", None)
            if cancel is not None:
                cancel()

    def wait_until_finished(self) -> None:
        """Waits until the save is durable. Raises its error, once."""
        self._background.wait()

    def check_for_errors(self) -> None:
        """Raises the error of a save that has ended, once. Does not wait."""
        self._background.check()

    def is_saving_in_progress(self) -> bool:
        """Whether a save goes on."""
        return self._background.is_running()

    def restore(self, directory: Any, *args: Any, **kwargs: Any) -> Any:
        """Waits for the save before, then restores."""
        self.wait_until_finished()
        return super().restore(directory, *args, **kwargs)

    def close(self) -> None:
        """Waits for a save that goes on, and closes the handler. Saves then fail."""
        self.wait_until_finished()
        super().close()
        self._is_closed = True
