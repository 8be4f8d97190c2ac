"""Trees for tests, and a comparison of them that looks at types and bits."""

import numpy as np

# Of NumPy. Those of ml_dtypes are in SMALL.
DTYPES = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
DTYPES += ["float16", "float32", "float64", "complex64", "complex128"]
SMALL = ["bfloat16", "float8_e4m3fn", "float8_e5m2", "int4"]


def small_type(name):
    import ml_dtypes  # not in all rows

    return np.dtype(getattr(ml_dtypes, name))


def bits(name, shape=(4, 6)):
    """An array of any bits, not-a-numbers among them."""
    dtype = small_type(name) if name in SMALL else np.dtype(name)
    drawn = np.random.default_rng(len(name)).integers(0, 256, (*shape, dtype.itemsize), np.uint8)
    if name == "bool":
        drawn %= 2
    if name == "int4":
        return (drawn[..., 0].view(np.int8) % 16 - 8).astype(dtype)
    return drawn.view(dtype)[..., 0]


def arrays_of(names):
    return {name: bits(name) for name in names}


def same(found, expected, at="tree"):
    """Fails where types, shapes or bits differ. An array may be of NumPy or of JAX."""
    if isinstance(expected, dict):
        assert sorted(found, key=str) == sorted(expected, key=str), at
        for key in expected:
            same(found[key], expected[key], f"{at}[{key!r}]")
    elif isinstance(expected, (list, tuple)):
        assert isinstance(found, (list, tuple)) and len(found) == len(expected), at
        for index, pair in enumerate(zip(found, expected)):
            same(*pair, f"{at}[{index}]")
    elif hasattr(expected, "dtype"):
        a, b = np.asarray(found), np.asarray(expected)
        assert (a.dtype, a.shape) == (b.dtype, b.shape), f"{at}: {a.dtype}{a.shape}"
        assert a.tobytes() == b.tobytes(), f"{at}: values"
    else:
        assert type(found) is type(expected) and found == expected, f"{at}: {found!r}"
