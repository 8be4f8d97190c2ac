"""Runs a program with both packages and compares every step, and the files that it leaves."""

import dataclasses
import json
import os
import pathlib

import jax
import numpy as np
import orbax.checkpoint as real

import cairn.orbax as ours

# A class of an error stands for its subclasses: those of the packages have other names.
ERRORS = (
    AssertionError,
    KeyError,
    FileNotFoundError,
    FileExistsError,
    NotADirectoryError,
    NotImplementedError,
    ValueError,
    TypeError,
    AttributeError,
    RuntimeError,
)
# Files of which only the existence counts, or which only one package writes: see docs/guides/python-orbax.md.
UNCOMPARED = ("commit_success.txt", "ocdbt.process_", ".orbax-checkpoint-tmp")
TIMES = ("init_timestamp_nsecs", "commit_timestamp_nsecs", "performance_metrics")


class Recorder:
    """Calls functions and notes what they return or raise."""

    def __init__(self, root):
        self._root = root
        self.steps = []

    def __call__(self, name, function, *args, **kwargs):
        try:
            result = function(*args, **kwargs)
        except Exception as error:
            kinds = [kind.__name__ for kind in ERRORS if isinstance(error, kind)]
            self.steps.append((name, "raises", (kinds or [type(error).__name__])[0]))
            return None
        self.steps.append((name, "returns", self.described(result)))
        return result

    def described(self, value):
        """Types, bits and shardings, without the classes that each package has of its own."""
        if isinstance(value, jax.Array):
            place = (str(value.dtype), value.shape, str(value.sharding), value.weak_type)
            if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
                value = jax.random.key_data(value)
            return ("jax", *place, np.asarray(value).tobytes())
        if isinstance(value, np.ndarray):
            return ("numpy", str(value.dtype), value.shape, value.tobytes())
        if isinstance(value, os.PathLike | str):
            return ("text", os.fspath(value).replace(str(self._root), "ROOT"))
        if "TreeMetadata" in type(value).__name__:
            return ("TreeMetadata", *map(self.described, (value.tree, value.custom_metadata)))
        if isinstance(value, set | frozenset):
            return ("set", sorted(map(str, value)))
        if isinstance(value, list | tuple):
            return (type(value).__name__, [self.described(child) for child in value])
        if hasattr(value, "items") and hasattr(value, "keys"):
            pairs = [(key, self.described(child)) for key, child in value.items()]
            return (type(value).__name__, sorted(pairs, key=str))
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            names = [field.name for field in dataclasses.fields(value)]
            parts = [(name, self.described(getattr(value, name))) for name in names if name not in TIMES]
            return (type(value).__name__, parts)
        if isinstance(value, np.dtype | jax.sharding.Sharding):
            return (str(value),)
        if value is None or isinstance(value, bool | int | float | complex | bytes | np.generic):
            return (type(value).__name__, repr(value))
        return (value.__name__ if isinstance(value, type) else type(value).__name__,)

    def files(self):
        """The directories and files, with the JSON of those that are metadata."""
        found = {}
        for path in sorted(pathlib.Path(self._root).rglob("*")):
            name = str(path.relative_to(self._root))
            parts = name.split("/")
            if "d" in parts or any(mark in name for mark in UNCOMPARED):
                continue
            found[name] = "directory" if path.is_dir() else "file"
            if path.is_file() and path.name in ("_METADATA", "_CHECKPOINT_METADATA", "metrics"):
                stored = json.loads(path.read_text())
                for key in TIMES:
                    stored.pop(key, None)
                found[name] = stored
        return found


def difference(mine, theirs):
    """Where two descriptions begin to differ."""
    texts = [str(mine), str(theirs)]
    pairs = enumerate(zip(*texts, strict=False))
    start = max(0, next((at for at, (a, b) in pairs if a != b), 0) - 200)
    return " is not ".join(text[start : start + 400] for text in texts)


def compare(program, tmp_path, packages=(ours, real), expect_files=True):
    """Fails unless program(ocp, directory, step) does the same with both packages."""
    recorders = []
    for number, ocp in enumerate(packages):
        root = tmp_path / str(number)
        root.mkdir()
        recorders.append(Recorder(root))
        program(ocp, root, recorders[-1])
    found, expected = recorders
    for mine, theirs in zip(found.steps, expected.steps, strict=True):
        assert mine == theirs, difference(mine, theirs)
    files = [one.files() for one in recorders]
    assert files[0] == files[1], difference(*files)
    assert expected.steps and (expected.files() or not expect_files)
