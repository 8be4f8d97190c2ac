"""Transformations that join arrays along an axis."""

import re
from collections.abc import Sequence
from typing import Any

from cairn.orbax._impl.model_surgery import arrays
from cairn.orbax._impl.model_surgery.types import Transformation


def _joined(values: "list[Any]", axis: int) -> Any:
    import jax.numpy as jnp
    import numpy as np

    if isinstance(values[0], np.ndarray):
        return np.concatenate(values, axis=axis)
    with arrays.placed_like(values):
        return jnp.concatenate(values, axis=axis)


def _fuse(params: "dict[str, Any]", sources: "Sequence[str]", name: str, axis: int) -> None:
    """Puts one array in the place of several. None of them stays, and the new one is the last."""
    joined = _joined([params[source] for source in sources], axis)
    for source in sources:
        del params[source]
    params[name] = joined


def _warn_of_parts(name: str, found: Any, expected: "Sequence[str]") -> None:
    arrays.log.warning("%s is not fused: found %s of %s", name, list(found), list(expected))


def fuse_by_pattern(
    *, pattern: str, unique_parts: "Sequence[str]", fused_unique_part: str, axis: int = 0
) -> Transformation:
    """Joins arrays whose names differ in one part only.

    An incomplete set stays as it is, with a warning.

    Args:
      pattern: a regular expression, which names match from their beginning.
      unique_parts: the parts in which the names of a set differ, in the order of the arrays.
      fused_unique_part: takes the place of these parts in the new name.
      axis: of the arrays.
    """
    names = re.compile(pattern)
    parts = re.compile("|".join(re.escape(part) for part in unique_parts))

    def fuse(*params: Any) -> Any:
        result = dict(arrays.only(params, "fuses"))
        sets: dict[str, dict[str, str]] = {}
        for name in result:
            found = parts.search(name) if names.match(name) else None
            if found is not None:
                fused = parts.sub(lambda _: fused_unique_part, name)
                sets.setdefault(fused, {})[found.group()] = name
        for fused, sources in sets.items():
            if len(sources) == len(unique_parts):
                _fuse(result, [sources[part] for part in unique_parts], fused, axis)
            else:
                _warn_of_parts(fused, sources, unique_parts)
        return result

    return fuse


def fuse_by_keys(*, source_keys: "Sequence[str]", target_key: str, axis: int = 0) -> Transformation:
    """Joins the arrays of these names. If only some are there, they stay, with a warning."""

    def fuse(*params: Any) -> Any:
        result = dict(arrays.only(params, "fuses"))
        found = [name for name in source_keys if name in result]
        if len(found) == len(source_keys):
            _fuse(result, source_keys, target_key, axis)
        elif found:
            _warn_of_parts(target_key, found, source_keys)
        return result

    return fuse
