"""Transformations that repeat the elements of arrays along an axis."""

import re
from collections.abc import Sequence
from typing import Any

from cairn.orbax._impl.model_surgery import arrays
from cairn.orbax._impl.model_surgery.types import Transformation


def _repeated(value: Any, axis: int, count: int) -> Any:
    import jax.numpy as jnp
    import numpy as np

    if isinstance(value, np.ndarray):
        return np.repeat(value, count, axis=axis)
    with arrays.placed_like([value]):
        return jnp.repeat(value, count, axis=axis)


def repeat_by_pattern(*, pattern: str, dimension: int, repeat_count: int) -> Transformation:
    """Repeats each element of the arrays whose names match from their beginning."""
    names = re.compile(pattern)

    def repeat(*params: Any) -> Any:
        return {
            name: _repeated(value, dimension, repeat_count) if names.match(name) else value
            for name, value in dict(arrays.only(params, "repeats")).items()
        }

    return repeat


def repeat_by_keys(
    *, target_keys: "Sequence[str]", dimension: int, repeat_count: int
) -> Transformation:
    """Repeats each element of the arrays of these names. A warning names those that are missing."""

    def repeat(*params: Any) -> Any:
        result = dict(arrays.only(params, "repeats"))
        missing = [name for name in target_keys if name not in result]
        if missing:
            arrays.log.warning("there are no arrays to repeat of the names %s", missing)
        for name in target_keys:
            if name in result:
                result[name] = _repeated(result[name], dimension, repeat_count)
        return result

    return repeat
