"""The handlers that are registered from the start."""

from cairn.orbax.v1._impl.handlers.registry import CheckpointableHandlerRegistry
from cairn.orbax.v1._impl.names import METRICS, STATE


def _legacy(*names: str) -> "list[str]":
    """The names of handlers of the older API, which checkpoints may have."""
    return [
        f"orbax.checkpoint.{place}_src.handlers.{name}" for name in names for place in ("", "v0.")
    ]


def register(registry: CheckpointableHandlerRegistry) -> None:
    """Adds the handlers to a registry that is empty. The last one has precedence."""
    if registry.get_all_entries():
        return
    from cairn.orbax.v1._impl.handlers.file_handlers import (
        JsonHandler,
        MetricsHandler,
        ProtoHandler,
    )
    from cairn.orbax.v1._impl.handlers.pytree_handler import PyTreeHandler
    from cairn.orbax.v1._impl.handlers.stateful_handler import StatefulCheckpointableHandler

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
