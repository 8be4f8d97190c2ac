"""Transformations that rename arrays."""

import re
from collections.abc import Sequence
from typing import Any

from cairn.orbax._impl.model_surgery import arrays
from cairn.orbax._impl.model_surgery.types import Transformation


def rename_by_regex(rules: "Sequence[tuple[str, str]]") -> Transformation:
    """Applies every rule to every name, in order.

    rules: pairs of a regular expression and its replacement.
    """
    compiled = [(re.compile(pattern), replacement) for pattern, replacement in rules]

    def rename(*params: Any) -> Any:
        result = {}
        for name, value in arrays.only(params, "renames").items():
            for pattern, replacement in compiled:
                name = pattern.sub(replacement, name)
            result[name] = value
        return result

    return rename
