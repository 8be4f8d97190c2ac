"""The checkpointer of a manager, from what its constructor is given."""

from collections.abc import Mapping
from typing import Any

from cairn.orbax._impl.base import options as option_types
from cairn.orbax._impl.commit.checkpointer import AsyncCheckpointer, Checkpointer
from cairn.orbax._impl.handlers.composite_handler import (
    CompositeArgs,
    CompositeCheckpointHandler,
    CompositeOptions,
)
from cairn.orbax._impl.handlers.handler import CheckpointHandler
from cairn.orbax._impl.handlers.json_handler import (
    JsonCheckpointHandler,
    JsonRestoreArgs,
    JsonSaveArgs,
)
from cairn.orbax._impl.handlers.registry import DefaultCheckpointHandlerRegistry
from cairn.orbax._impl.steps.manager_options import CheckpointManagerOptions

DEFAULT_ITEM = "default"
METRICS_ITEM = "metrics"


def metrics_handler() -> JsonCheckpointHandler:
    """The handler of the metrics of a step."""
    return JsonCheckpointHandler(filename=METRICS_ITEM)


def _exclude(**given: Any) -> None:
    both = [name for name, value in given.items() if value]
    if len(both) > 1:
        raise ValueError(f"{both[0]} and {both[1]} are mutually exclusive")


def make_checkpointer(
    checkpointers: Any,
    options: CheckpointManagerOptions,
    item_names: Any,
    item_handlers: Any,
    registry: Any,
) -> "tuple[Checkpointer, bool | None]":
    """The checkpointer, and whether there is one unnamed item (None: it is not known yet).

    Raises ValueError for what excludes each other.
    """
    _exclude(checkpointers=checkpointers, item_names=item_names)
    _exclude(checkpointers=checkpointers, item_handlers=item_handlers)
    _exclude(checkpointers=checkpointers, handler_registry=registry)
    _exclude(item_handlers=item_handlers, handler_registry=registry)
    _exclude(item_names=item_names, handler_registry=registry)
    if item_names and isinstance(item_handlers, CheckpointHandler):
        raise ValueError("item_names and a single handler in item_handlers exclude each other")
    asynchronous = options.enable_async_checkpointing
    composite_options = CompositeOptions(file_options=options.file_options)
    if checkpointers is not None:
        handlers, single = _of_checkpointers(checkpointers)
        used = [checkpointers] if single else list(checkpointers.values())
        asynchronous = any(isinstance(one, AsyncCheckpointer) for one in used)
        composite = CompositeCheckpointHandler(
            composite_options=composite_options, **handlers, metrics=metrics_handler()
        )
        return _checkpointer(composite, options, asynchronous), single
    if item_names is None and item_handlers is None:
        registry = DefaultCheckpointHandlerRegistry(registry)
        for kind in (JsonSaveArgs, JsonRestoreArgs):
            if not registry.has(METRICS_ITEM, kind):
                registry.add(METRICS_ITEM, kind, metrics_handler())
        composite = CompositeCheckpointHandler(
            composite_options=composite_options, handler_registry=registry
        )
        return _checkpointer(composite, options, asynchronous), None
    single = isinstance(item_handlers, CheckpointHandler)
    handlers = {DEFAULT_ITEM: item_handlers} if single else dict.fromkeys(item_names or ())
    if isinstance(item_handlers, Mapping):
        handlers.update(item_handlers)
    handlers[METRICS_ITEM] = metrics_handler()
    composite = CompositeCheckpointHandler(composite_options=composite_options, **handlers)
    return _checkpointer(composite, options, asynchronous), single


def _of_checkpointers(checkpointers: Any) -> "tuple[dict[str, Any], bool]":
    if isinstance(checkpointers, Checkpointer):
        return {DEFAULT_ITEM: checkpointers.handler}, True
    if not isinstance(checkpointers, dict):
        raise ValueError(f"Invalid type for `checkpointers`. Found {checkpointers}.")
    for name, one in checkpointers.items():
        if not isinstance(one, Checkpointer):
            raise ValueError(
                f"checkpointers has {type(one)} for {name}, which is not a Checkpointer"
            )
    return {name: one.handler for name, one in checkpointers.items()}, False


def _checkpointer(
    handler: CompositeCheckpointHandler, options: CheckpointManagerOptions, asynchronous: bool
) -> Checkpointer:
    background = options.async_options or option_types.AsyncOptions()
    commits: dict[str, Any] = {
        "atomicity_options": options.atomicity_options,
        "temporary_path_class": options.temporary_path_class,
        "file_options": options.file_options,
    }
    if asynchronous:
        return AsyncCheckpointer(handler, async_options=background, **commits)
    if background.post_finalization_callback is not None:
        raise ValueError("AsyncOptions.post_finalization_callback needs asynchronous saves")
    return Checkpointer(handler, **commits)


def determine_default_item_mode_from_args(args: Any) -> bool:
    """Whether the arguments are those of one item without a name."""
    return not isinstance(args, CompositeArgs)


def is_async_checkpointer(checkpointer: Any) -> bool:
    """Whether a checkpointer saves in the background."""
    return isinstance(checkpointer, AsyncCheckpointer)
