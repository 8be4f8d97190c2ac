"""The type of transformations."""

from typing import Any, Protocol


class Transformation(Protocol):
    """A function from trees of arrays to one tree."""

    def __call__(self, *source_array_trees: Any) -> Any: ...
