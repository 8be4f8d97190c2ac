"""Which leaves of trees can be saved, and what a leaf of a target asks for."""

import dataclasses
from typing import Any

from cairn.orbax._impl.leaves.leaf_args import PLACEHOLDER, ArrayRestoreArgs, RestoreArgs

SCALARS = (int, float, bytes)  # bool is an int


class UnregisteredTypeError(ValueError):
    """No handler of leaves knows the type."""


def check_state(state: Any) -> None:
    """Raises ValueError for a leaf that save() does not take."""
    import jax
    import numpy as np

    allowed = (jax.Array, np.ndarray, np.number, str, *SCALARS)
    for path, leaf in jax.tree_util.tree_flatten_with_path(state)[0]:
        if not isinstance(leaf, allowed):
            raise ValueError(
                f"{jax.tree_util.keystr(path)}: Unsupported leaf type for saving: {type(leaf)}; "
                "leaves are arrays of JAX and NumPy, numbers and str"
            )


def check_stored_types(tree: Any) -> None:
    """Raises UnregisteredTypeError for a leaf of a type that no tree can hold."""
    import jax
    import numpy as np

    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        known = (jax.Array, np.ndarray, str, *SCALARS)
        if leaf is not PLACEHOLDER and not isinstance(leaf, known):
            raise UnregisteredTypeError(
                f"{jax.tree_util.keystr(path)}: a leaf of {type(leaf)} cannot be stored; make it "
                "an array of JAX or NumPy, a number of Python or a str"
            )


def has_attributes(cls: Any, *names: str) -> bool:
    """Whether a class has attributes, or at least annotations of them."""
    return all(
        hasattr(cls, name)
        or any(name in getattr(base, "__annotations__", {}) for base in cls.__mro__)
        for name in names
    )


def _kind(leaf: Any) -> "str | None":
    """Returns the kind of a target's leaf or of its class; None if it is unknown."""
    if leaf is PLACEHOLDER:
        return "placeholder"
    cls = leaf if isinstance(leaf, type) else type(leaf)
    if has_attributes(cls, "shape", "dtype", "sharding"):
        return "jax"
    if has_attributes(cls, "shape", "dtype"):
        return "numpy"
    if issubclass(cls, SCALARS):
        return "scalar"
    return "string" if issubclass(cls, str) else None


def check_target(target: Any, error: "type[Exception]" = TypeError) -> None:
    """Raises an error for a leaf of a target that stands for nothing."""
    import jax

    for path, leaf in jax.tree_util.tree_flatten_with_path(target)[0]:
        if _kind(leaf) is None:
            raise error(
                f"{jax.tree_util.keystr(path)}: Unsupported abstract leaf type for loading: "
                f"{type(leaf)}; leaves have shape and dtype (and sharding), or are numbers, str, "
                "types of these, or ..."
            )


def restore_args_for(leaf: Any, strict: bool) -> RestoreArgs:
    """How a leaf of a target is restored. strict=False: arrays of JAX may have another shape."""
    import jax
    import numpy as np

    kind = _kind(leaf)
    is_class = isinstance(leaf, type)
    if kind == "placeholder":
        return RestoreArgs(restore_type=type(PLACEHOLDER))
    if kind == "jax":
        if is_class:
            return ArrayRestoreArgs(restore_type=jax.Array)
        return ArrayRestoreArgs(
            restore_type=jax.Array,
            dtype=leaf.dtype,
            sharding=leaf.sharding,
            shape=None if leaf.shape is None else tuple(leaf.shape),
            strict=strict,
        )
    if kind == "numpy":
        return RestoreArgs(restore_type=np.ndarray, dtype=None if is_class else leaf.dtype)
    if kind == "scalar":
        return RestoreArgs(restore_type=leaf if is_class else type(leaf))
    return RestoreArgs()


@dataclasses.dataclass
class ArrayMetadata:
    """An array of JAX. Also a target that restores it as and where it was."""

    shape: "tuple[int, ...] | None"
    dtype: Any
    sharding_metadata: Any
    storage_metadata: Any

    @property
    def sharding(self) -> Any:
        """The sharding. Raises ValueError if its devices are not here."""
        return None if self.sharding_metadata is None else self.sharding_metadata.to_jax_sharding()


@dataclasses.dataclass
class NumpyMetadata:
    """An array of NumPy."""

    shape: "tuple[int, ...] | None"
    dtype: Any
    storage_metadata: Any
