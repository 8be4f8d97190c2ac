"""Descriptions of arrays."""

from typing import Any

from cairn.orbax._impl.missing import hints as _hints

__getattr__ = _hints(
    __name__,
    {"construct_maximal_shardings": "give a jax.sharding.NamedSharding of a mesh of your own"},
)


def to_shape_dtype_struct(
    arr: Any, dtype: Any = None, scalar_dtype: Any = None, support_format: bool = False
) -> Any:
    """A jax.ShapeDtypeStruct of an array, of ArrayRestoreArgs or of metadata. Numbers stay.

    Args:
      arr: what has shape (or global_shape), dtype and sharding; an array of NumPy; a number.
      dtype: a type in place of its own.
      scalar_dtype: a type of Python to which a number is converted.
      support_format: not available.
    """
    import jax
    import numpy as np

    from cairn.orbax._impl.leaves.leaf_reads import is_key_dtype
    from cairn.orbax._impl.leaves.shardings import concrete_sharding

    if support_format:
        raise NotImplementedError("support_format: layouts are chosen by the compiler")
    if isinstance(arr, int | float | np.number):
        return arr if scalar_dtype is None else scalar_dtype(arr)
    if isinstance(arr, jax.Array) and is_key_dtype(arr.dtype):
        arr = jax.random.key_data(arr)
    shape = arr.global_shape if hasattr(arr, "global_shape") else arr.shape
    sharding = getattr(arr, "sharding", None)
    return jax.ShapeDtypeStruct(  # type: ignore[no-untyped-call]
        shape,
        dtype or arr.dtype,
        sharding=None if sharding is None else concrete_sharding(sharding),
    )
