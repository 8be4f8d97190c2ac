"""Helpers of the transformations: their arguments, and the devices they compute on."""

import contextlib
import logging
from collections.abc import Sequence
from typing import Any

log = logging.getLogger("cairn.orbax")


def only(trees: "tuple[Any, ...]", verb: str) -> Any:
    """The one tree that a transformation takes. Raises ValueError for more than one."""
    if len(trees) != 1:
        raise ValueError(f"a transformation that {verb} takes one dict of arrays, not {len(trees)}")
    return trees[0]


def are_on_host(values: "Sequence[Any]") -> bool:
    """Whether all values are arrays of JAX in the memory of the host."""
    import jax

    return all(
        isinstance(value, jax.Array) and next(iter(value.devices())).platform == "cpu"
        for value in values
    )


def placed_like(values: "Sequence[Any]") -> Any:
    """A context in which JAX computes on the host if all values are there."""
    import jax

    if not are_on_host(values):
        return contextlib.nullcontext()
    return jax.default_device(jax.local_devices(backend="cpu")[0])
