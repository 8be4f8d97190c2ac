"""save, save_checkpointables, and their asynchronous forms."""

import asyncio
import warnings
from collections.abc import Callable
from typing import Any

from cairn.orbax._impl.base import asyncs
from cairn.orbax._impl.base.time_limits import TimeLimit
from cairn.orbax._impl.commit.pending_checkpoint import Commit
from cairn.orbax._impl.paths.checkpoint_paths import COMMIT_FILE
from cairn.orbax._impl.paths.parallel import ask_all
from cairn.orbax._impl.paths.permissions import make, mode_of
from cairn.orbax._impl.paths.store_path import is_store_url
from cairn.orbax._impl.stored.step_metadata import write_file
from cairn.orbax._impl.v1.checks import check_options
from cairn.orbax._impl.v1.context import Context, get_context
from cairn.orbax._impl.v1.deletion_record import check_not_in_deletion
from cairn.orbax._impl.v1.given_paths import given_path
from cairn.orbax._impl.v1.handlers.handler_types import CreatedPath, typestr
from cairn.orbax._impl.v1.handlers.leaf_types import check_state
from cairn.orbax._impl.v1.handlers.resolve import handler_for_save
from cairn.orbax._impl.v1.names import INDICATOR_FILE, METRICS, STATE, check_to_save
from cairn.orbax._impl.v1.options import CheckpointLayout
from cairn.orbax._impl.v1.responses import AsyncResponse, Background


def save(
    path: Any,
    state: Any,
    *,
    checkpointable_name: str = STATE,
    overwrite: bool = False,
    custom_metadata: Any = None,
) -> None:
    """Saves a tree and waits until it is durable. It appears complete or not at all.

    Args:
      path: a directory that does not exist.
      state: a tree of JAX's registry; leaves are arrays of JAX and NumPy, numbers and str.
      checkpointable_name: the name of the tree among the checkpoint's parts.
      overwrite: replace an older checkpoint; it stays until the new one is complete.
      custom_metadata: a dict for JSON, stored with the checkpoint.

    Raises:
      ValueError: the path exists, a leaf is of another type, or there is no leaf.
    """
    check_state(state)
    save_checkpointables(
        path,
        {checkpointable_name: state},
        overwrite=overwrite,
        custom_metadata=custom_metadata,
    )


def save_checkpointables(
    path: Any,
    checkpointables: "dict[str, Any]",
    *,
    overwrite: bool = False,
    custom_metadata: Any = None,
) -> None:
    """Saves named objects, each by its handler. Arguments and errors are otherwise those of save().

    Raises NoEntryError, which is a KeyError, if an object has no handler.
    """
    begin(get_context(), path, checkpointables, overwrite, custom_metadata)()


def save_async(
    path: Any,
    state: Any,
    *,
    checkpointable_name: str = STATE,
    overwrite: bool = False,
    custom_metadata: Any = None,
) -> "AsyncResponse[None]":
    """As save(), but returns when everything is copied that the caller may change."""
    check_state(state)
    return save_checkpointables_async(
        path,
        {checkpointable_name: state},
        overwrite=overwrite,
        custom_metadata=custom_metadata,
    )


def save_checkpointables_async(
    path: Any,
    checkpointables: "dict[str, Any]",
    *,
    overwrite: bool = False,
    custom_metadata: Any = None,
) -> "AsyncResponse[None]":
    """As save_checkpointables(), but returns when everything is copied."""
    context = get_context()
    finish = begin(context, path, checkpointables, overwrite, custom_metadata)
    callback = context.asynchronous.post_finalization_callback

    def work() -> None:
        finish()
        if callback is not None:
            callback()

    return Background(work, "cairn-orbax-save")


def begin(
    context: Context,
    path: Any,
    checkpointables: "dict[str, Any]",
    overwrite: bool,
    custom_metadata: Any,
    *,
    is_step: bool = False,
    metrics: Any = None,
    check: "Callable[[], None] | None" = None,
) -> "Callable[[], None]":
    """Copies what the caller may change. Returns the function that does the rest.

    is_step: of a training.Checkpointer, whose steps have no INDICATOR_FILE. metrics: stored as one
    more part, if there are any. check() is called before the checkpoint gets its name; what it
    raises ends the save.
    """
    check_to_save(checkpointables)
    if metrics:
        checkpointables = {**checkpointables, METRICS: metrics}
    check_options(context)
    if context.checkpoint_layout == CheckpointLayout.SAFETENSORS:
        raise NotImplementedError(
            "a save writes Orbax's layout; cairn.save('name.safetensors', tree) writes safetensors"
        )
    target = given_path(context, path)
    limit = TimeLimit(target, context.asynchronous.timeout_secs)
    check_not_in_deletion(target)
    mode = mode_of(context.file)
    commit = Commit(target, overwrite, custom_metadata, mode=mode, is_step=is_step)
    commit.create()
    try:
        directory = given_path(context, commit.directory)
        registry = context.checkpointables.registry
        with context:  # handlers are made with it
            handlers = {
                name: handler_for_save(registry, name, value)
                for name, value in checkpointables.items()
            }
            for name in checkpointables:
                # The parts of checkpoints that are no steps do not get the mode, as in Orbax.
                make(directory / name, mode if is_step else None)
            with limit.around():
                rest = asyncs.run(_start(directory, checkpointables, handlers))
    except BaseException:
        commit.abandon()
        raise

    def finish() -> None:
        try:
            with context, limit.around():
                asyncs.run(_wait(rest))
            limit.check()
            # The folder of a checkpointable of this name marks the checkpoint, too, as in Orbax.
            if not is_step and INDICATOR_FILE not in checkpointables:
                write_file(commit.directory / INDICATOR_FILE, "")
            if is_step and is_store_url(commit.directory):  # as Orbax on gs://
                ask_all(commit.directory, _mark_complete, [directory / name for name in handlers])
            if check is not None:
                check()
            commit.finish({name: typestr(type(one)) for name, one in handlers.items()})
        except BaseException:
            commit.abandon()
            raise

    return finish


def _mark_complete(part: Any) -> None:
    (part / COMMIT_FILE).write_text(f"Checkpoint commit was successful to {part}")


async def _start(directory: Any, checkpointables: Any, handlers: Any) -> "list[Any]":
    return await asyncio.gather(
        *(
            handlers[name].save(CreatedPath(directory / name), value)
            for name, value in checkpointables.items()
        )
    )


async def _wait(rest: "list[Any]") -> None:
    await asyncio.gather(*(one for one in rest if one is not None))


def save_pytree(*args: Any, **kwargs: Any) -> None:
    """The older name of save()."""
    warnings.warn(
        "save_pytree is deprecated. Use `save` instead.", DeprecationWarning, stacklevel=2
    )
    save(*args, **kwargs)


def save_pytree_async(*args: Any, **kwargs: Any) -> "AsyncResponse[None]":
    """The older name of save_async()."""
    warnings.warn(
        "save_pytree_async is deprecated. Use `save_async` instead.", DeprecationWarning, 2
    )
    return save_async(*args, **kwargs)
