"""Which conversions the native part makes while it reads: on all cores, and with little memory."""

from __future__ import annotations

import functools

from cairn import _cairn

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


def number_conversion(stored: str, dtype: Any) -> str:
    """Returns conversion() for any number type. cairn.load checks each element."""
    if dtype is None or not _is_number(stored):
        return ""
    return _number_name(dtype)


@functools.cache
def _is_number(name: str) -> bool:
    return _cairn.is_number_type(name)


@functools.cache
def _number_name(dtype: Any) -> str:
    name = str(dtype.newbyteorder("=").name)
    return name if _is_number(name) else ""


def is_float(name: str) -> bool:
    """Whether NumPy's name of a type is one of floating-point numbers."""
    return name.startswith(("float", "bfloat"))


@functools.cache
def _float_name(dtype: Any) -> str:
    name = str(dtype.name) if dtype.isnative else ""
    return name if is_float(name) else ""


def exact_number(value: Any, stored: str, kind: Any, is_checked: bool) -> Any:
    """A number of Python as another type of number: bool, int, float, complex or a subclass.

    `stored`: the name of the type that it has in the checkpoint. With is_checked, raises ValueError
    for a value that the type does not hold; only floating-point numbers are rounded.
    """
    real = value.real if isinstance(value, complex) and not issubclass(kind, complex) else value
    if is_checked:
        is_kept = real is value or value.imag == 0
        if issubclass(kind, bool):
            is_kept = isinstance(value, bool)
        elif issubclass(kind, int):
            is_kept = is_kept and (not isinstance(real, float) or real.is_integer())
        elif isinstance(real, int):
            is_kept = kind(real) == real
        if not is_kept:
            raise ValueError(
                f"the value is {value} ({stored}), which the target's type {kind.__name__} does "
                'not hold exactly; casting="unsafe" converts it nevertheless'
            )
    return kind(value if issubclass(kind, bool) else real)
