"""Whether two trees are the same: containers, types, shapes and bytes."""

import numpy as np


def assert_same(a, b, at="tree"):
    assert type(a) is type(b), f"{at}: {type(a)} and {type(b)}"
    if isinstance(a, dict):
        assert list(a) == list(b) or sorted(map(str, a)) == sorted(map(str, b)), f"{at}: {list(a)}, {list(b)}"
        for key in a:
            assert_same(a[key], b[key], f"{at}[{key!r}]")
    elif isinstance(a, (list, tuple)):
        assert len(a) == len(b), at
        for i, (x, y) in enumerate(zip(a, b)):
            assert_same(x, y, f"{at}[{i}]")
    elif hasattr(a, "dtype") and hasattr(a, "shape"):
        x, y = np.asarray(a), np.asarray(b)
        assert x.dtype == y.dtype and x.shape == y.shape, f"{at}: {x.dtype}{x.shape}, {y.dtype}{y.shape}"
        assert x.tobytes() == y.tobytes(), f"{at}: values"
    else:
        assert a == b or (a != a and b != b), f"{at}: {a!r}, {b!r}"
