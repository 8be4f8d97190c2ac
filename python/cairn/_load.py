"""cairn.load: a whole checkpoint into memory, or into the caller's own structure."""

from __future__ import annotations

import os
import sys

from cairn import _targets
from cairn._casts import exact_number, is_float
from cairn._checkpoint import Checkpoint, item_value, open
from cairn._globs import included
from cairn._progress import shown
from cairn._read_plan import ReadPlan
from cairn._save import check_flag

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
    framework: str | None = None,
    dtype: Any = None,
    sharding: Any = None,
    casting: str = "checked",
    progress: Any = None,
) -> Any:
    """Reads a checkpoint into memory.

    Without a target: dicts and lists of NumPy arrays, numbers and strings, as stored. The arrays
    are the caller's own; those of less than 2 MiB share blocks of memory of 16 MiB. Keys of dicts
    are what they were when cairn saved them: int, bool, float, None or str. Orbax stores all keys
    as str: the load warns (UserWarning) of dicts whose keys may have been ints.

    Args:
      path: the checkpoint, or one that open() has opened.
      target: a tree of the structure to return. Each leaf says what to return in its place: an
        array of NumPy, a tensor of PyTorch, an array of JAX or a jax.ShapeDtypeStruct (with its
        sharding), a number or a str. Values are converted to the leaf's type (see casting); shapes
        must agree. `...` stays. An empty dict takes the dict that is stored in its place, as the
        state of an optimizer that has not made a step. The target is not changed.
      out: a tree of arrays of NumPy, tensors of PyTorch or memoryviews, into which the values are
        read. Types and shapes must be those stored. It is returned.
      include: globs; only leaves whose names match are read; None: all. Without a target.
      step: the step to read below a directory of steps; None: the latest.
      item: the item to read of a checkpoint that has several.
      partial: leaves that the target lacks are not read; leaves that are not stored keep the
        target's value. False: either is a ValueError that lists them.
      framework: "numpy" (None), "torch" or "jax": whose arrays to return. Without a target, whose
        own leaves say so; its empty dicts get arrays of the kind of its other leaves.
      dtype: a type to which floating-point arrays are converted, or None. Without a target.
      sharding: a jax.sharding.Sharding for all arrays, or a function of a leaf's name and shape
        that returns one. Each device reads its part only. Without a target.
      casting: "checked": floating-point numbers may be rounded to smaller ones. A number that the
        target's type cannot hold otherwise is a ValueError with its name and index: an integer
        that is too large or not exact as a float, a fraction or NaN as an integer, an imaginary
        part as a real number, any number as a bool. "unsafe": as astype() of NumPy.
      progress: True (a bar), or a function of bytes done and bytes in total.

    Raises:
      FileNotFoundError: there is no such checkpoint, step or item.
      KeyError: no leaf matches `include`.
      CorruptionError: stored bytes are damaged.
      ValueError: the target does not have the stored structure or shapes, a value is lost in the
        target's type, or the path is not a checkpoint.
      TypeError: sharding is not a sharding.
    """
    _check_arguments(target, out, include, framework, dtype, sharding, casting)
    check_flag("partial", partial)
    opened = path if isinstance(path, Checkpoint) else open(path, step=step, item=item)
    if opened is path and (step is not None or item is not None):
        raise ValueError("step and item choose what to open; this checkpoint is open")
    with shown(progress, "load") as callback:
        if out is not None:
            return _into(opened, out, partial, callback)
        if target is not None:
            return _like(opened, target, partial, casting, callback)
        if include is None and framework in (None, "numpy") and dtype is None and sharding is None:
            _warn_of_lost_keys(opened.reader, opened.path, None)
            return opened.reader.load(callback)
        return _converted(opened, include, framework, dtype, sharding, casting, callback)


def _check_arguments(
    target: Any, out: Any, include: Any, framework: Any, dtype: Any, sharding: Any, casting: Any
) -> None:
    if framework not in (None, "numpy", "torch", "jax"):
        raise ValueError(f"framework: {framework!r} is not 'numpy', 'torch' or 'jax'")
    if casting not in ("checked", "unsafe"):
        raise ValueError(f"casting: {casting!r} is not 'checked' or 'unsafe'")
    if sum(given is not None for given in (target, out, include)) > 1:
        raise ValueError("give only one of target, out and include")
    if (target is not None or out is not None) and (
        framework not in (None, "numpy") or dtype is not None or sharding is not None
    ):
        raise ValueError("framework, dtype and sharding are those of the target's leaves")
    if out is not None and casting != "checked":
        raise ValueError("casting: out has the stored types, so nothing is converted")
    if not callable(sharding):
        _check_sharding(sharding)


def _check_sharding(sharding: Any) -> None:
    if sharding is not None and not hasattr(sharding, "addressable_devices_indices_map"):
        raise TypeError(
            "sharding: expected a jax.sharding.Sharding or a function of a leaf's name and shape, "
            f"not {sharding!r}"
        )


def _warn_of_lost_keys(
    reader: Any, path: str, indices: list[int] | None, stacklevel: int = 3
) -> None:
    """Warns of dicts that are returned with keys of str and may have had others."""
    lost = reader.lost_keys(indices)
    if not lost:
        return
    import warnings

    names = [
        (repr(name) if name else "the tree") + (f" (of type {kind})" if kind else "")
        for name, kind in lost[:10]
    ]
    more = f" and {len(lost) - 10} more" if len(lost) > 10 else ""
    warnings.warn(
        f"{path}: the keys of these dicts are returned as str: {', '.join(names)}{more}. "
        "The checkpoint does not record whether they were ints, or they are of a type that is not "
        "restored; load with a target to get the target's keys",
        stacklevel=stacklevel + 1,
    )


# ---- without a target ----


def _converted(
    opened: Checkpoint,
    include: Any,
    framework: str | None,
    dtype: Any,
    sharding: Any,
    casting: str,
    callback: Any,
) -> Any:
    reader = opened.reader
    globs = included(include)
    if globs is None:
        indices = list(range(len(reader)))
    else:
        indices = reader.select(globs)
        if not indices:
            raise KeyError(f"no leaf matches {', '.join(map(repr, globs))}")
    _warn_of_lost_keys(reader, opened.path, None if globs is None else indices, 4)
    structure = reader.structure(True)
    return _read_leaves(reader, indices, structure, framework, dtype, sharding, casting, callback)


def load_below(
    reader: Any,
    node: Any,
    where: str,
    framework: str | None = None,
    dtype: Any = None,
    sharding: Any = None,
    casting: str = "checked",
    progress: Any = None,
) -> Any:
    """Everything below a node of the structure. `where` names it in warnings."""
    _check_arguments(None, None, None, framework, dtype, sharding, casting)
    indices = list(_indices(node))
    _warn_of_lost_keys(reader, where, indices, 4)
    with shown(progress, "load") as callback:
        return _read_leaves(reader, indices, node, framework, dtype, sharding, casting, callback)


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
    framework: str | None,
    dtype: Any,
    sharding: Any,
    casting: str,
    callback: Any,
) -> Any:
    plan = ReadPlan(reader, casting)
    _add_stored(plan, indices, framework, dtype, sharding)
    return _pick(structure, dict(zip(indices, plan.run(callback), strict=True)))


def _add_stored(
    plan: ReadPlan, indices: list[int], framework: str | None, dtype: Any, sharding: Any
) -> None:
    """Plans leaves as they are stored, with the arrays of a framework."""
    of_framework = _of_framework(framework)
    wanted = None if dtype is None else _numpy_dtype(dtype)
    cast = None if wanted is None else plan.cast(wanted)
    cast_of_framework = _one_after_another(cast, of_framework)
    reader = plan.reader
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
        _check_sharding(placed)
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


def _same(array: Any) -> Any:
    return array


def _item(array: Any) -> Any:
    return array.item()


def _of_framework(framework: str | None) -> Callable[[Any], Any] | None:
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


def _match(
    opened: Checkpoint,
    paths: list[_targets.Path],
    partial: bool,
    taken: frozenset[int] = frozenset(),
) -> list[int | None]:
    """The stored leaf of each path. `taken`: numbers of leaves that need no path."""
    reader = opened.reader
    all_paths, empty_ones = reader.leaf_paths()
    stored = {path: index for index, path in enumerate(all_paths)}
    empty = {all_paths[index] for index in empty_ones}
    for path in empty:
        del stored[path]
    missing = [path for path in paths if path not in stored]
    wanted = set(paths)
    extra = [path for path, i in stored.items() if path not in wanted and i not in taken]
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


def _like(
    opened: Checkpoint,
    target: Any,
    partial: bool,
    casting: str,
    callback: Any,
) -> Any:
    paths, leaves, rebuild = _targets.flatten(target, empty_dicts=True)
    pairs = list(zip(paths, leaves, strict=True))
    empty = [path for path, leaf in pairs if _targets.is_empty_dict(leaf)]
    below = _stored_below(opened.reader, empty)
    taken = frozenset(index for node in below.values() for index in _indices(node))
    arrays = [(path, leaf) for path, leaf in pairs if not _targets.is_empty_dict(leaf)]
    needed = [path for path, leaf in arrays if leaf is not ...]
    is_partial = partial or len(needed) < len(arrays)
    matched = dict(zip(needed, _match(opened, needed, is_partial, taken), strict=True))
    if below:
        _warn_of_lost_keys(opened.reader, opened.path, sorted(taken), 4)
    framework = _framework_of(paths, leaves)
    plan = ReadPlan(opened.reader, casting)
    counts = []  # for each leaf of the target, of the values that are read for it
    for path, leaf in pairs:
        if path in below and _targets.is_empty_dict(leaf):
            indices = list(_indices(below[path]))
            _add_stored(plan, indices, framework, None, None)
            counts.append(len(indices))
            continue
        counts.append(1)
        index = matched.get(path)
        if index is None:
            plan.add_value(leaf)
            continue
        try:
            _add_like(plan, index, leaf)
        except (ValueError, TypeError) as error:
            raise type(error)(f"{_targets.path_text(path)}: {error}") from None
    values = iter(plan.run(callback))
    made = []
    for (path, leaf), count in zip(pairs, counts, strict=True):
        if path in below and _targets.is_empty_dict(leaf):
            node = below[path]
            members = _pick(node, {index: next(values) for index in _indices(node)})
            made.append(_targets.with_members(leaf, members))
        else:
            made += [next(values) for _ in range(count)]
    return rebuild(made)


def _stored_below(reader: Any, paths: list[_targets.Path]) -> dict[_targets.Path, Any]:
    """The structure of the dicts that are stored at these paths; not of those that are empty."""
    if not paths:
        return {}
    structure = reader.structure(True)
    found = ((path, _node_at(structure, path)) for path in paths)
    return {path: node for path, node in found if isinstance(node, dict) and node}


def _node_at(node: Any, path: _targets.Path) -> Any:
    """The node of a structure at a path of text; None if there is none."""
    for text in path:
        if isinstance(node, dict):
            node = node.get(text, next((node[key] for key in node if str(key) == text), None))
        elif hasattr(node, "_fields"):
            node = getattr(node, text, None) if text in node._fields else None
        elif isinstance(node, list | tuple):
            node = node[int(text)] if text.isdecimal() and int(text) < len(node) else None
        else:
            return None
    return node


def _framework_of(paths: list[_targets.Path], leaves: list[Any]) -> str:
    """Whose arrays a target has, which its empty dicts get, too."""
    torch = sys.modules.get("torch")
    jax = sys.modules.get("jax")
    if torch is not None and any(isinstance(leaf, torch.Tensor) for leaf in leaves):
        return "torch"
    if jax is not None and any(
        isinstance(leaf, jax.Array | jax.ShapeDtypeStruct) for leaf in leaves
    ):
        return "jax"
    if torch is not None and not any(hasattr(leaf, "dtype") for leaf in leaves):
        # An optimizer of PyTorch before its first step has "param_groups" and an empty "state".
        above = {path[:-1] for path in paths if path and path[-1] == "state"}
        if any(
            path[:i] in above and path[i] == "param_groups"
            for path in paths
            for i in range(len(path))
        ):
            return "torch"
    return "numpy"


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
        plan.add(index, _number_like(plan, info, type(leaf)))
        return
    if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
        raise TypeError(f"a target cannot have a leaf of type {type(leaf).__qualname__}")
    torch = sys.modules.get("torch")
    jax = sys.modules.get("jax")
    if torch is not None and isinstance(leaf, torch.Tensor):
        from cairn import _torch

        _check_shape(info, _torch.shape(leaf))
        wanted = _numpy_dtype(leaf.dtype)
        origin, shape = _torch.box(leaf)
        cast = plan.cast(wanted)
        plan.add_box(
            index,
            origin,
            shape,
            lambda array: _torch.like(leaf, _torch.from_numpy(cast(array))),
            wanted,
        )
    elif jax is not None and isinstance(leaf, jax.Array | jax.ShapeDtypeStruct):
        _add_jax(plan, index, leaf, jax)
    else:
        _check_shape(info, leaf.shape)
        cast = plan.cast(leaf.dtype)
        is_scalar = _is_numpy_scalar(leaf)
        plan.add(index, lambda array: cast(array)[() if is_scalar else ...], leaf.dtype)


def _number_like(plan: ReadPlan, info: Any, kind: type) -> Callable[[Any], Any]:
    """Makes a number of Python of an array of rank 0."""
    is_checked = plan.is_checked

    def make(array: Any) -> Any:
        return exact_number(array[()].item(), info.dtype, kind, is_checked)

    return make


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
        cast = plan.cast(leaf.dtype)
        plan.add(index, lambda array: jax.numpy.asarray(cast(array)), leaf.dtype)
    else:
        plan.add_sharded(index, sharding, plan.cast(leaf.dtype), dtype=leaf.dtype)


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

            if _torch.shape(leaf) != tuple(stored):
                raise ValueError(
                    f"{_targets.path_text(path)}: the stored shape is {tuple(stored)}, the "
                    f"destination's is {_torch.shape(leaf)}"
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
