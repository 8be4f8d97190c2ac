"""The arithmetic of the JAX programs' converters on NumPy arrays: float64, rounded once."""

import ml_dtypes
import numpy as np


def multiply(array, factor):
    return (array.astype(np.float64) * factor).astype(array.dtype)


def divide(array, factor):
    return (array.astype(np.float64) / factor).astype(array.dtype)


def add(array, offset):
    return (array.astype(np.float64) + offset).astype(array.dtype)


def as_bfloat16(number):
    return float(np.float32(number).astype(ml_dtypes.bfloat16))


def pad_rows(array, rows):
    return np.concatenate([array, np.zeros((rows - len(array), *array.shape[1:]), array.dtype)])


def heads_of_rows(array, heads):
    """(heads * size, e) of a projection into heads -> (e, heads, size)."""
    return array.reshape(heads, -1, array.shape[1]).transpose(2, 0, 1)


def heads_of_columns(array, heads):
    """(e, heads * size) of a projection from heads -> (heads, size, e)."""
    return array.T.reshape(heads, -1, len(array))


def interleave_halves(array):
    """On the last axis: a0 a1 .. b0 b1 .. -> a0 b0 a1 b1 .."""
    half = array.shape[-1] // 2
    out = np.empty_like(array)
    out[..., ::2], out[..., 1::2] = array[..., :half], array[..., half:]
    return out
