"""cairn.load: a whole checkpoint into memory, or into the caller's own structure."""

from __future__ import annotations

import os
import sys

from cairn import _targets
from cairn._casts import is_float
from cairn._checkpoint import Checkpoint, item_value, open
from cairn._globs import included
from cairn._progress import shown
from cairn._read_plan import ReadPlan, cast_array

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


def load(
    path: str | os.PathLike[str] | Checkpoint,
    target: Any = None,
    *,
    out: Any = None,
    include: str | list[str] | None = None,
    step: int | None = None,
    item: str | None = None,
    partial: bool = False,
    framework: str = "numpy",
    dtype: Any = None,
    sharding: Any = None,
    progress: Any = None,
) -> Any:
    """Reads a checkpoint into memory.

    Without a target: dicts and lists of NumPy arrays, numbers and strings, as stored. The arrays
    are the caller's own; those of less than 2 MiB share blocks of memory of 16 MiB.

    Args:
      path: the checkpoint, or one that open() has opened.
      target: a tree of the structure to return. Each leaf says what to return in its place: an
        array of NumPy, a tensor of PyTorch, an array of JAX or a jax.ShapeDtypeStruct (with its
        sharding), a number or a str. Values are converted to the leaf's type; shapes must agree.
        `...` stays. The target is not changed.
      out: a tree of arrays of NumPy, tensors of PyTorch or memoryviews, into which the values are
        read. Types and shapes must be those stored. It is returned.
      include: globs; only leaves whose names match are read; None: all. Without a target.
      step: the step to read below a directory of steps; None: the latest.
      item: the item to read of a checkpoint that has several.
      partial: leaves that the target lacks are not read; leaves that are not stored keep the
        target's value. False: either is a ValueError that lists them.
      framework: "numpy", "torch" or "jax": whose arrays to return. Without a target.
      dtype: a type to which floating-point arrays are converted, or None. Without a target.
      sharding: a jax.sharding.Sharding for all arrays, or a function of a leaf's name and shape
        that returns one. Each device reads its part only. Without a target.
      progress: True (a bar), or a function of bytes done and bytes in total.

    Raises:
      FileNotFoundError: there is no such checkpoint, step or item.
      KeyError: no leaf matches `include`.
      CorruptionError: stored bytes are damaged.
      ValueError: the target does not have the stored structure or shapes, or the path is not
        a checkpoint.
    """
    if framework not in ("numpy", "torch", "jax"):
        raise ValueError(f"framework: {framework!r} is not 'numpy', 'torch' or 'jax'")
    if sum(given is not None for given in (target, out, include)) > 1:
        raise ValueError("give only one of target, out and include")
    if (target is not None or out is not None) and (
        framework != "numpy" or dtype is not None or sharding is not None
    ):
        raise ValueError("framework, dtype and sharding are those of the target's leaves")
    opened = path if isinstance(path, Checkpoint) else open(path, step=step, item=item)
    if opened is path and (step is not None or item is not None):
        raise ValueError("step and item choose what to open; this checkpoint is open")
    with shown(progress, "load") as callback:
        if out is not None:
            return _into(opened, out, partial, callback)
        if target is not None:
            return _like(opened, target, partial, callback)
        if include is None and framework == "numpy" and dtype is None and sharding is None:
            return opened.reader.load(callback)
        return _converted(opened, include, framework, dtype, sharding, callback)


# ---- without a target ----


def _converted(
    opened: Checkpoint, include: Any, framework: str, dtype: Any, sharding: Any, callback: Any
) -> Any:
    reader = opened.reader
    globs = included(include)
    if globs is None:
        indices = list(range(len(reader)))
    else:
        indices = reader.select(globs)
        if not indices:
            raise KeyError(f"no leaf matches {', '.join(map(repr, globs))}")
    return _read_leaves(reader, indices, reader.structure(), framework, dtype, sharding, callback)


def load_below(
    reader: Any,
    node: Any,
    framework: str = "numpy",
    dtype: Any = None,
    sharding: Any = None,
    progress: Any = None,
) -> Any:
    """Everything below a node of the structure."""
    with shown(progress, "load") as callback:
        return _read_leaves(
            reader, list(_indices(node)), node, framework, dtype, sharding, callback
        )


def _indices(node: Any) -> Iterator[int]:
    if isinstance(node, int):
        yield node
        return
    for child in node.values() if isinstance(node, dict) else node:
        yield from _indices(child)


def _read_leaves(
    reader: Any,
    indices: list[int],
    structure: Any,
    framework: str,
    dtype: Any,
    sharding: Any,
    callback: Any,
) -> Any:
    plan = ReadPlan(reader)
    of_framework = _of_framework(framework)
    wanted = None if dtype is None else _numpy_dtype(dtype)
    cast = None if wanted is None else plan.cast(wanted)
    cast_of_framework = _one_after_another(cast, of_framework)
    for index in indices:
        info = reader.tensor(index)
        if info.kind not in ("array", "unknown", "custom"):
            plan.add_value(item_value(reader, index))
            continue
        stored_as = info.dtype
        if info.typestr == "scalar" and not stored_as.startswith("complex"):
            plan.add(index, _item)
            continue
        is_cast = cast is not None and is_float(stored_as)
        placed = sharding(info.name, info.shape) if callable(sharding) else sharding
        of_jax = framework == "jax" or placed is not None
        implementation = reader.random_key_impl(index) if of_jax and stored_as == "uint32" else ""
        if implementation:
            plan.add_keys(index, placed, implementation)
        elif placed is not None:
            finish = cast if cast is not None and is_cast else _same
            plan.add_sharded(index, placed, finish, dtype=wanted if is_cast else None)
        elif is_cast:
            plan.add(index, cast_of_framework, wanted)
        else:
            plan.add(index, of_framework)
    return _pick(structure, dict(zip(indices, plan.run(callback), strict=True)))


def _same(array: Any) -> Any:
    return array


def _item(array: Any) -> Any:
    return array.item()


def _of_framework(framework: str) -> Callable[[Any], Any] | None:
    """Makes an array of the framework of one of NumPy; None for NumPy."""
    if framework == "torch":
        from cairn import _torch

        return _torch.from_numpy
    if framework == "jax":
        import jax

        return jax.numpy.asarray
    return None


def _one_after_another(
    first: Callable[[Any], Any] | None, second: Callable[[Any], Any] | None
) -> Callable[[Any], Any] | None:
    if first is None or second is None:
        return first or second
    return lambda array: second(first(array))


def _numpy_dtype(dtype: Any) -> Any:
    """A type of NumPy for a name, a type of NumPy, JAX or PyTorch."""
    import numpy as np

    text = str(dtype)
    if text.startswith("torch."):
        from cairn import _torch

        dtype = _torch.dtype_name(dtype)
    if isinstance(dtype, str):
        try:
            return np.dtype(dtype)
        except TypeError:
            import ml_dtypes

            if not hasattr(ml_dtypes, dtype):
                raise TypeError(f"dtype: {dtype!r} is not a type of NumPy or ml_dtypes") from None
            return np.dtype(getattr(ml_dtypes, dtype))
    return np.dtype(dtype)


def _pick(node: Any, values: dict[int, Any]) -> Any:
    """The structure with the values that there are; containers without any are left out."""
    picked = _pick_or_none(node, values)
    return {} if picked is None else picked[0]


def _pick_or_none(node: Any, values: dict[int, Any]) -> tuple[Any] | None:
    if isinstance(node, int):
        return (values[node],) if node in values else None
    if isinstance(node, dict):
        found = {key: _pick_or_none(child, values) for key, child in node.items()}
        kept = {key: child[0] for key, child in found.items() if child is not None}
        return (kept,) if kept or not node else None
    items = [_pick_or_none(child, values) for child in node]
    kept_items = [child[0] for child in items if child is not None]
    if not kept_items and node:
        return None
    if hasattr(node, "_fields") and len(kept_items) == len(node):
        return (type(node)(*kept_items),)
    return (kept_items if isinstance(node, list) else tuple(kept_items),)


# ---- into the caller's structure ----


def _match(opened: Checkpoint, paths: list[_targets.Path], partial: bool) -> list[int | None]:
    """The stored leaf of each path."""
    reader = opened.reader
    all_paths, empty_ones = reader.leaf_paths()
    stored = {path: index for index, path in enumerate(all_paths)}
    empty = {all_paths[index] for index in empty_ones}
    for path in empty:
        del stored[path]
    missing = [path for path in paths if path not in stored]
    wanted = set(paths)
    extra = [path for path in stored if path not in wanted]
    if not partial and (missing or extra):
        raise ValueError(_mismatch(opened, missing, extra, empty))
    return [stored.get(path) for path in paths]


def _mismatch(opened: Checkpoint, missing: Any, extra: Any, empty: Any) -> str:
    lines = [f"{opened.path}: the target does not have the stored structure"]
    for path in missing[:10]:
        stored = "stored as empty" if path in empty else "not stored"
        lines.append(f"  {_targets.path_text(path)}: in the target, {stored}")
    for path in extra[:10]:
        lines.append(f"  {_targets.path_text(path)}: stored, not in the target")
    hidden = max(0, len(missing) - 10) + max(0, len(extra) - 10)
    if hidden:
        lines.append(f"  ... and {hidden} more")
    lines.append("  partial=True restores what both have")
    return "\n".join(lines)


def _like(opened: Checkpoint, target: Any, partial: bool, callback: Any) -> Any:
    paths, leaves, rebuild = _targets.flatten(target)
    needed = [path for path, leaf in zip(paths, leaves, strict=True) if leaf is not ...]
    matched = dict(
        zip(needed, _match(opened, needed, partial or len(needed) < len(paths)), strict=True)
    )
    plan = ReadPlan(opened.reader)
    for path, leaf in zip(paths, leaves, strict=True):
        index = matched.get(path)
        if index is None:
            plan.add_value(leaf)
            continue
        try:
            _add_like(plan, index, leaf)
        except (ValueError, TypeError) as error:
            raise type(error)(f"{_targets.path_text(path)}: {error}") from None
    return rebuild(plan.run(callback))


def _add_like(plan: ReadPlan, index: int, leaf: Any) -> None:
    info = plan.reader.tensor(index)
    is_array = type(leaf).__name__ == "ndarray" and type(leaf).__module__ == "numpy"
    if is_array and info.kind == "array" and info.shape == leaf.shape:
        plan.add(index, plan.cast(leaf.dtype), leaf.dtype)
        return
    if info.kind == "string":
        plan.add_value(item_value(plan.reader, index))
        return
    if isinstance(leaf, bool | int | float | complex):
        _check_shape(info, ())
        plan.add(index, lambda array: type(leaf)(array[()].item()))
        return
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        raise TypeError(f"a target cannot have a leaf of type {type(leaf).__qualname__}")
    torch = sys.modules.get("torch")
    jax = sys.modules.get("jax")
    if torch is not None and isinstance(leaf, torch.Tensor):
        from cairn import _torch

        _check_shape(info, leaf.shape)
        wanted = _numpy_dtype(leaf.dtype)
        origin, shape = _torch.box(leaf)
        plan.add_box(
            index,
            origin,
            shape,
            lambda array: _torch.like(leaf, _torch.from_numpy(cast_array(array, wanted))),
            wanted,
        )
    elif jax is not None and isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
        _add_jax(plan, index, leaf, jax)
    else:
        _check_shape(info, leaf.shape)
        is_scalar = _is_numpy_scalar(leaf)
        plan.add(
            index,
            lambda array: cast_array(array, leaf.dtype)[() if is_scalar else ...],
        )


def _is_numpy_scalar(leaf: Any) -> bool:
    import numpy as np

    return isinstance(leaf, np.generic)


def _add_jax(plan: ReadPlan, index: int, leaf: Any, jax: Any) -> None:
    from cairn import _jax

    info = plan.reader.tensor(index)
    sharding = getattr(leaf, "sharding", None)
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        implementation = plan.reader.random_key_impl(index) or str(leaf.dtype._impl.name)
        keys = tuple(info.shape[: max(0, len(info.shape) - len(leaf.dtype._impl.key_shape))])
        if keys != tuple(leaf.shape):
            raise ValueError(
                f"the stored random keys have the shape {keys}, the target's have "
                f"{tuple(leaf.shape)}"
            )
        words = _jax.key_data_sharding(sharding, len(info.shape))

        plan.add_keys(index, words, implementation)
        return
    _check_shape(info, leaf.shape)
    if sharding is None:
        plan.add(index, lambda array: jax.numpy.asarray(cast_array(array, leaf.dtype)), leaf.dtype)
    else:
        finish = plan.cast(leaf.dtype)
        plan.add_sharded(index, sharding, finish, dtype=leaf.dtype)


def _check_shape(info: Any, shape: Any) -> None:
    if tuple(info.shape) != tuple(shape):
        raise ValueError(f"the stored shape is {tuple(info.shape)}, the target's is {tuple(shape)}")


def _into(opened: Checkpoint, out: Any, partial: bool, callback: Any) -> Any:
    paths, leaves, _ = _targets.flatten(out)
    torch = sys.modules.get("torch")
    destinations = []
    for path, leaf, index in zip(paths, leaves, _match(opened, paths, partial), strict=True):
        if index is None:
            continue
        stored = opened.reader.tensor(index).shape
        origin, shape = [0] * len(stored), list(stored)
        if torch is not None and isinstance(leaf, torch.Tensor):
            from cairn import _torch

            if tuple(leaf.shape) != tuple(stored):
                raise ValueError(
                    f"{_targets.path_text(path)}: the stored shape is {tuple(stored)}, the "
                    f"destination's is {tuple(leaf.shape)}"
                )
            origin, shape = _torch.box(leaf)
            leaf = _torch.writable(leaf.detach(), _targets.path_text(path))
        elif isinstance(leaf, memoryview):
            import numpy as np

            leaf = np.asarray(leaf)  # shares its memory
        elif type(leaf).__module__ != "numpy" or not hasattr(leaf, "strides"):
            raise TypeError(
                f"{_targets.path_text(path)}: an object of type {type(leaf).__qualname__} "
                "cannot be read into; arrays of NumPy, tensors of PyTorch and memoryviews can"
            )
        destinations.append((index, origin, shape, leaf))
    opened.reader.read_into(destinations, callback)
    return out
