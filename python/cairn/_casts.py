"""Which conversions the native part makes while it reads: on all cores, and with little memory."""

from __future__ import annotations

import functools

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from typing import Any


def conversion(stored: str, dtype: Any) -> str:
    """The name of the type to which a read converts elements of the type `stored`; "": to none.

    It converts floating-point numbers to such numbers, with the same results as astype() of NumPy.
    `dtype`: a type of NumPy, or None. Other conversions are left to astype().
    """
    if dtype is None or not is_float(stored):
        return ""
    return _float_name(dtype)


def is_float(name: str) -> bool:
    """Whether NumPy's name of a type is one of floating-point numbers."""
    return name.startswith(("float", "bfloat"))


@functools.cache
def _float_name(dtype: Any) -> str:
    name = str(dtype.name) if dtype.isnative else ""
    return name if is_float(name) else ""
