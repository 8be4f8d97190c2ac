"""Handlers for tests, and temporary directories as an interrupted save leaves them."""

import copy
import functools
import inspect
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from cairn.orbax._impl.base.processes import barriers_named, is_primary_host, sync_global_processes
from cairn.orbax._impl.handlers import pytree_handler
from cairn.orbax._impl.handlers.args import register_with_handler
from cairn.orbax._impl.handlers.handler import AsyncCheckpointHandler
from cairn.orbax._impl.paths.checkpoint_paths import COMMIT_FILE, STEP_METADATA_FILE, as_path
from cairn.orbax._impl.stored.atomicity import AtomicRenameTemporaryPath, is_path_temporary
from cairn.orbax._impl.stored.step_metadata import write_file
from cairn.orbax._impl.types.type_registry import (
    default_types,
    global_registry,
    register_standard_handlers_with_options,
)

_PRETENDED_WRITE = 3  # seconds


class PyTreeCheckpointHandler(pytree_handler.PyTreeCheckpointHandler):
    """One whose save() also finalizes, so that it needs no checkpointer."""

    def save(self, directory: Any, *args: Any, **kwargs: Any) -> None:
        """Writes a tree; all processes wait until it is complete."""
        super().save(directory, *args, **kwargs)
        sync_global_processes("PyTreeCheckpointHandler:save")
        if is_primary_host(0):
            self.finalize(directory)
        sync_global_processes("PyTreeCheckpointHandler:finalize")


class ErrorCheckpointHandler(AsyncCheckpointHandler):
    """Calls another handler of trees. Its async_save() fails in the background with SystemError."""

    def __init__(self, handler: Any, executor: Any) -> None:
        self._handler = handler
        self._executor = executor

    def save(self, directory: Any, args: "ErrorSaveArgs") -> None:
        """Saves without an error."""
        self._handler.save(directory, args=args)

    def restore(self, directory: Any, args: "ErrorRestoreArgs") -> Any:
        """Restores the tree."""
        return self._handler.restore(directory, args=args)

    async def async_save(self, directory: Any, args: "ErrorSaveArgs") -> "list[Any]":
        """Starts to save. The last future fails after 3 seconds."""
        futures = await self._handler.async_save(directory, args=args)
        return [*(futures or []), self._executor.submit(_fail_later)]

    def finalize(self, directory: Any) -> None:
        """Ends the write."""
        self._handler.finalize(directory)


def _fail_later() -> None:
    time.sleep(_PRETENDED_WRITE)
    raise SystemError


@register_with_handler(ErrorCheckpointHandler, for_save=True)
class ErrorSaveArgs(pytree_handler.PyTreeSaveArgs):
    """Arguments of an ErrorCheckpointHandler."""


@register_with_handler(ErrorCheckpointHandler, for_restore=True)
class ErrorRestoreArgs(pytree_handler.PyTreeRestoreArgs):
    """Arguments of an ErrorCheckpointHandler."""


@contextmanager
def global_type_handler_registry_context() -> "Iterator[None]":
    """After the block, the types that trees have by default have their handlers again."""
    before = [(kind, copy.copy(handler)) for kind, handler in default_types()]
    try:
        yield
    finally:
        for kind, handler in before:
            global_registry().add(kind, handler, override=True)


@contextmanager
def ocdbt_checkpoint_context(use_ocdbt: bool, ts_context: Any) -> "Iterator[None]":
    """Within the block, numbers and arrays have new handlers in the global registry, for OCDBT.

    use_ocdbt: False leaves the handlers that are registered. ts_context has no effect: Cairn writes
    databases without TensorStore.
    """
    with global_type_handler_registry_context():
        if use_ocdbt:
            register_standard_handlers_with_options(use_ocdbt=True, ts_context=ts_context)
        yield


def barrier_compatible_test(cls: Any) -> Any:
    """Decorates a class of unittest whose processes do not all run the same tests.

    The barriers of each test get the test's name, so that those of one test do not meet those of
    another. Returns the class, whose methods that begin with "test" it replaces.
    """
    for name, method in inspect.getmembers(cls, inspect.isfunction):
        if name.startswith("test"):
            setattr(cls, name, _with_own_barriers(method))
    return cls


def _with_own_barriers(method: Any) -> Any:
    @functools.wraps(method)
    async def run_async(self: Any, *args: Any, **kwargs: Any) -> Any:
        with barriers_named(f".{self.id()}"):
            return await method(self, *args, **kwargs)

    @functools.wraps(method)
    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with barriers_named(f".{self.id()}"):
            return method(self, *args, **kwargs)

    return run_async if inspect.iscoroutinefunction(method) else run


def create_tmp_directory(
    tmp_dir: Any,
    final_dir: Any,
    *,
    primary_host: "int | None" = 0,
    active_processes: Any = None,
    barrier_sync_key_prefix: "str | None" = None,
    path_permission_mode: "int | None" = None,
    metadata_store: Any = None,
) -> Any:
    """Makes the temporary directory of a save and returns it. One that is left over is replaced.

    With a metadata_store, it gets the metadata of a step. Raises FileExistsError for a finished
    checkpoint, and NotImplementedError for active_processes.
    """
    if active_processes is not None:
        raise NotImplementedError("active_processes: all processes call it")
    prefix = f"{barrier_sync_key_prefix}:" if barrier_sync_key_prefix else ""
    path = as_path(tmp_dir)
    sync_global_processes(f"{prefix}create_tmp_directory:pre:{as_path(final_dir).name}")
    if is_primary_host(primary_host):
        if path.exists():
            if not is_path_temporary(path):
                raise FileExistsError(
                    f"{path}: is a finished checkpoint, not a temporary directory"
                )
            path.rmtree()
        path.mkdir(parents=True, mode=path_permission_mode)
        if metadata_store is not None:
            begin = {"init_timestamp_nsecs": time.time_ns(), "commit_timestamp_nsecs": None}
            metadata_store.write(path / STEP_METADATA_FILE, begin)
    sync_global_processes(f"{prefix}create_tmp_directory:post:{as_path(final_dir).name}")
    return path


def ensure_atomic_save(temp_ckpt_dir: Any, final_ckpt_dir: Any, metadata_store: Any = None) -> None:
    """Completes a checkpoint that a test has written, by a rename. One process calls it.

    If both paths are the same one, the file commit_success.txt completes it. With a metadata_store,
    the metadata of the step get the time. Raises OSError if the final path is not empty.
    """
    temporary, final = as_path(temp_ckpt_dir), as_path(final_ckpt_dir)
    if metadata_store is not None:
        metadata_store.wait_until_finished()
        metadata_store.update(
            file_path=temporary / STEP_METADATA_FILE, commit_timestamp_nsecs=time.time_ns()
        )
        metadata_store.wait_until_finished()
    write_file(temporary / COMMIT_FILE, f"Checkpoint commit was successful to {final}")
    if temporary != final:
        os.rename(temporary, final)


def save_fake_tmp_dir(
    directory: Any,
    step: int,
    item: str,
    subdirs: "list[str] | None" = None,
    step_prefix: "str | None" = None,
) -> Any:
    """Directories as a save of an item leaves them that was interrupted. Returns the item's."""
    final = as_path(directory) / f"{step_prefix or ''}{step}"
    temporary = create_tmp_directory(AtomicRenameTemporaryPath._temporary_of(final), final)
    of_item = temporary / item
    made = create_tmp_directory(AtomicRenameTemporaryPath._temporary_of(of_item), of_item)
    if is_primary_host(0):
        for name in subdirs or []:
            (made / name).mkdir(parents=True)
    sync_global_processes("save_fake_tmp_dir")
    return made
