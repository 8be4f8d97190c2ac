"""Context: the options of the calls in a `with` block."""

import copy
from typing import Any

from cairn.orbax._impl.v1 import options as types
from cairn.orbax._impl.v1.array_options import ArrayOptions
from cairn.orbax._impl.v1.checkpointables_options import CheckpointablesOptions
from cairn.orbax._impl.v1.frozen import Active, active, check_not_active, ids_within
from cairn.orbax._impl.v1.memory_options import MemoryOptions, SafetensorsOptions
from cairn.orbax._impl.v1.settings import KINDS, Settings

_KINDS = {**KINDS, "checkpointables": ("checkpointables_options", CheckpointablesOptions)}


class Context(Settings):
    """Options for the calls in its `with` block, in this thread.

    Change them as attributes before the block, e.g. context.array.saving.use_zarr3 = False.
    Context(other) begins with a copy of the other's options. Contexts do not add up: in an inner
    block only the inner one counts.
    """

    checkpointables: CheckpointablesOptions

    def __init__(
        self,
        context: "Context | None" = None,
        *,
        pytree_options: "types.PyTreeOptions | None" = None,
        array_options: "ArrayOptions | None" = None,
        async_options: "types.AsyncOptions | None" = None,
        multiprocessing_options: "types.MultiprocessingOptions | None" = None,
        file_options: "types.FileOptions | None" = None,
        checkpointables_options: "CheckpointablesOptions | None" = None,
        pathways_options: "types.PathwaysOptions | None" = None,
        checkpoint_layout: "types.CheckpointLayout | str | None" = None,
        deletion_options: "types.DeletionOptions | None" = None,
        memory_options: "MemoryOptions | None" = None,
        safetensors_options: "SafetensorsOptions | None" = None,
        atomicity_options: "types.AtomicityOptions | None" = None,
    ) -> None:
        given = locals()
        state: dict[str, Any] = {}
        for name, (argument, cls) in _KINDS.items():
            inherited = None if context is None else getattr(context, name)
            value = given[argument] if given[argument] is not None else inherited
            state[name] = cls() if value is None else copy.deepcopy(value)
        if checkpoint_layout is None:
            inherited = None if context is None else context.checkpoint_layout
            checkpoint_layout = inherited or types.CheckpointLayout.ORBAX
        state["_layout"] = types.CheckpointLayout(checkpoint_layout)
        self.__dict__.update(state)

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "checkpoint_layout":
            raise AttributeError(f"Context.{name} cannot be replaced; change its attributes")
        object.__setattr__(self, name, value)

    @property
    def checkpoint_layout(self) -> types.CheckpointLayout:
        """The format of checkpoints. May be set to its name: "safetensors"."""
        return self.__dict__["_layout"]  # type: ignore[no-any-return]

    @checkpoint_layout.setter
    def checkpoint_layout(self, value: "types.CheckpointLayout | str") -> None:
        check_not_active(self)
        self.__dict__["_layout"] = types.CheckpointLayout(value)

    def __getattr__(self, name: str) -> Any:
        for attribute, (argument, _) in _KINDS.items():
            if name == argument:
                return self.__dict__[attribute]
        raise AttributeError(f"Context has no {name!r}; it has {sorted(_KINDS)}")

    def __deepcopy__(self, memo: Any) -> "Context":
        return Context(self)

    def __enter__(self) -> "Context":
        before = active.get()
        ids = {id(self)}.union(*(ids_within(getattr(self, name)) for name in _KINDS))
        if before is not None:
            ids |= before.ids
        active.set(Active(self, frozenset(ids), before))
        return self

    def __exit__(self, *exception: object) -> None:
        now = active.get()
        assert now is not None and now.context is self
        active.set(now.before)


def get_context(default: "Context | None" = None) -> Context:
    """The active context; else the default; else one with default options."""
    now = active.get()
    return now.context if now is not None else default or Context()
