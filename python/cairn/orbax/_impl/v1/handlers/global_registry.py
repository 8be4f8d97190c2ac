"""The registry of handlers that all contexts begin with, and copies of it."""

from collections.abc import Sequence
from typing import Any, TypeVar

from cairn.orbax._impl.v1.handlers.file_handlers import JsonHandler, MetricsHandler, ProtoHandler
from cairn.orbax._impl.v1.handlers.pytree_handler import PyTreeHandler
from cairn.orbax._impl.v1.handlers.registry import (
    CheckpointableHandlerRegistry,
    ReadOnlyRegistry,
    Registry,
    copy_entries,
)
from cairn.orbax._impl.v1.handlers.stateful_handler import StatefulCheckpointableHandler
from cairn.orbax._impl.v1.names import METRICS, STATE

_Class = TypeVar("_Class", bound="type[Any]")


def _legacy(*names: str) -> "list[str]":
    """The names of handlers of the older API, which checkpoints may have."""
    return [
        f"orbax.checkpoint.{place}_src.handlers.{name}" for name in names for place in ("", "v0.")
    ]


def _with_standard_handlers() -> Registry:
    """A registry with the handlers that are there from the start. The last has precedence."""
    registry = Registry()
    registry.add(
        ProtoHandler,
        secondary_typestrs=_legacy("proto_checkpoint_handler.ProtoCheckpointHandler"),
    )
    registry.add(
        JsonHandler,
        secondary_typestrs=_legacy("json_checkpoint_handler.JsonCheckpointHandler"),
    )
    registry.add(StatefulCheckpointableHandler)
    registry.add(MetricsHandler, checkpointable_name=METRICS)
    registry.add(
        PyTreeHandler,
        secondary_typestrs=_legacy(
            "pytree_checkpoint_handler.PyTreeCheckpointHandler",
            "standard_checkpoint_handler.StandardCheckpointHandler",
        ),
    )
    registry.add(PyTreeHandler, checkpointable_name=STATE)
    return registry


_global = _with_standard_handlers()


def global_registry() -> CheckpointableHandlerRegistry:
    """The registry that all contexts begin with."""
    return _global


def local_registry(
    other_registry: "CheckpointableHandlerRegistry | None" = None,
    *,
    include_global_registry: bool = True,
) -> CheckpointableHandlerRegistry:
    """A new registry with the entries of the global one (by default) and of another."""
    result = Registry()
    if include_global_registry:
        copy_entries(global_registry(), result)
    if other_registry:
        copy_entries(other_registry, result)
    return result


def read_only_registry() -> CheckpointableHandlerRegistry:
    """A copy of the global registry, to which nothing can be added."""
    return ReadOnlyRegistry(global_registry())


def register_handler(
    cls: _Class,
    *,
    checkpointable_name: "str | None" = None,
    secondary_typestrs: "Sequence[str] | None" = None,
) -> _Class:
    """Adds a class of handlers to the global registry. Also a decorator.

    If several classes can handle an object, the one that was registered last does.
    """
    global_registry().add(
        cls, checkpointable_name=checkpointable_name, secondary_typestrs=secondary_typestrs
    )
    return cls
