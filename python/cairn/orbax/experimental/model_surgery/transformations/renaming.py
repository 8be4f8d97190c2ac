"""Transformations that rename arrays."""

import re
from collections.abc import Sequence
from typing import Any

from cairn.orbax._impl.missing import hints as _hints
from cairn.orbax.experimental.model_surgery.transformations import _arrays
from cairn.orbax.experimental.model_surgery.transformations.types import Transformation

__getattr__ = _hints(__name__)


def rename_by_regex(rules: "Sequence[tuple[str, str]]") -> Transformation:
    """Applies every rule to every name, in order.

    rules: pairs of a regular expression and its replacement.
    """
    compiled = [(re.compile(pattern), replacement) for pattern, replacement in rules]

    def rename(*params: Any) -> Any:
        result = {}
        for name, value in _arrays.only(params, "renames").items():
            for pattern, replacement in compiled:
                name = pattern.sub(replacement, name)
            result[name] = value
        return result

    return rename


__all__ = ["Transformation", "rename_by_regex"]
