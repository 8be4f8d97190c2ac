"""Types of trees, for annotations."""

from typing import Generic, TypeVar

_Leaf = TypeVar("_Leaf")


class PyTree:
    """Stands for a tree of JAX's registry."""


class PyTreeOf(Generic[_Leaf]):
    """Stands for a tree with leaves of a type."""
