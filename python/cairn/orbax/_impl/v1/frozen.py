"""Options that cannot be changed while a context that holds them is active."""

import contextvars
import dataclasses
from typing import Any


@dataclasses.dataclass(frozen=True)
class Active:
    """An entered context, the ids of all options that it freezes, and what was active before."""

    context: Any
    ids: "frozenset[int]"
    before: "Active | None"


# What is active in this thread or task.
active: "contextvars.ContextVar[Active | None]" = contextvars.ContextVar(
    "cairn_orbax_active", default=None
)


def check_not_active(owner: Any) -> None:
    """Raises RuntimeError if a context is active that is, or holds, this object."""
    now = active.get()
    if now is not None and id(owner) in now.ids:
        raise RuntimeError(
            f"{type(owner).__qualname__}: the options of an active context cannot be changed; set "
            "them before the `with` block, or use a new Context"
        )


class Options:
    """The base of classes of options."""

    def __setattr__(self, name: str, value: Any) -> None:
        check_not_active(self)
        object.__setattr__(self, name, value)


def ids_within(options: Any) -> "set[int]":
    """The ids of an object of options and of all options in it."""
    found = {id(options)}
    if dataclasses.is_dataclass(options) and not isinstance(options, type):
        for field in dataclasses.fields(options):
            value = getattr(options, field.name)
            if isinstance(value, Options):
                found |= ids_within(value)
    return found
