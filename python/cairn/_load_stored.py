"""Reads of leaves as they are stored: without a target, and into the empty dicts of one."""

from __future__ import annotations

from cairn._casts import is_float
from cairn._leaves import item_value
from cairn._long_calls import shown
from cairn._read_plan import ReadPlan

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any


def warn_of_lost_keys(
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
        "restored; load with a target that has these keys to get them back",
        stacklevel=stacklevel,
    )


def check_sharding(sharding: Any) -> None:
    if sharding is not None and not hasattr(sharding, "addressable_devices_indices_map"):
        raise TypeError(
            "sharding: expected a jax.sharding.Sharding or a function of a leaf's name and shape, "
            f"not {sharding!r}"
        )


def indices_of(node: Any) -> Iterator[int]:
    if isinstance(node, int):
        yield node
        return
    for child in node.values() if isinstance(node, dict) else node:
        yield from indices_of(child)


def add_stored(
    plan: ReadPlan, indices: list[int], framework: str | None, dtype: Any, sharding: Any
) -> None:
    """Plans leaves as they are stored, with the arrays of a framework."""
    of_framework = _of_framework(framework)
    wanted = None if dtype is None else numpy_dtype(dtype)
    cast = None if wanted is None else plan.cast(wanted)
    cast_of_framework = _one_after_another(cast, of_framework)
    reader = plan.reader
    for index in indices:
        info = reader.tensor(index)
        if info.kind not in ("array", "unknown", "custom"):
            plan.add_value(item_value(reader, index))
            continue
        stored_as = info.dtype
        # Orbax stores complex numbers as NumPy's; "complex" is Python's, of flax and PyTorch.
        is_number = info.typestr == "scalar" and not stored_as.startswith("complex")
        if is_number or info.typestr == "complex":
            plan.add(index, _item)
            continue
        if info.typestr in _NOT_ARRAYS:
            plan.add(index, _NOT_ARRAYS[info.typestr])
            continue
        is_cast = cast is not None and is_float(stored_as)
        placed = sharding(info.name, info.shape) if callable(sharding) else sharding
        check_sharding(placed)
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


def _item_list(array: Any) -> Any:
    return array.tolist()


def _tuple(array: Any) -> Any:
    return tuple(array.tolist())


def _bytes(array: Any) -> Any:
    return array.tobytes()


# Bytes, and lists and tuples of very many numbers, are stored as arrays but are none.
_NOT_ARRAYS = {"bytes": _bytes, "list of numbers": _item_list, "tuple of numbers": _tuple}


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


def numpy_dtype(dtype: Any) -> Any:
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


def pick(node: Any, values: dict[int, Any]) -> Any:
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


# ---- loads without a target ----


def check_arguments(
    target: Any, out: Any, include: Any, framework: Any, dtype: Any, sharding: Any, casting: Any
) -> None:
    """Raises ValueError for arguments of load() that exclude each other or have no such value."""
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
        check_sharding(sharding)


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
    check_arguments(None, None, None, framework, dtype, sharding, casting)
    indices = list(indices_of(node))
    warn_of_lost_keys(reader, where, indices, 4)
    with shown(progress, "load") as callback:
        return read_leaves(reader, indices, node, framework, dtype, sharding, casting, callback)


def read_leaves(
    reader: Any,
    indices: list[int],
    structure: Any,
    framework: str | None,
    dtype: Any,
    sharding: Any,
    casting: str,
    callback: Any,
) -> Any:
    """The structure with the values of the leaves of these numbers."""
    plan = ReadPlan(reader, casting)
    add_stored(plan, indices, framework, dtype, sharding)
    return pick(structure, dict(zip(indices, plan.run(callback), strict=True)))
