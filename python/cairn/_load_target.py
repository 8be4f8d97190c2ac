"""cairn.load into the caller's own structure, or into the caller's arrays."""

from __future__ import annotations

import sys

from cairn import _targets
from cairn._arguments import printable
from cairn._casts import exact_number
from cairn._checkpoint import Checkpoint
from cairn._leaves import item_value
from cairn._load_stored import add_stored, indices_of, numpy_dtype, pick, warn_of_lost_keys
from cairn._read_plan import ReadPlan

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


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
    lines = [f"{printable(opened.path)}: the target does not have the stored structure"]
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


def load_like(
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
    taken = frozenset(index for node in below.values() for index in indices_of(node))
    arrays = [(path, leaf) for path, leaf in pairs if not _targets.is_empty_dict(leaf)]
    needed = [path for path, leaf in arrays if leaf is not ...]
    is_partial = partial or len(needed) < len(arrays)
    matched = dict(zip(needed, _match(opened, needed, is_partial, taken), strict=True))
    if below:
        warn_of_lost_keys(opened.reader, opened.path, sorted(taken), 4)
    framework = _framework_of(paths, leaves)
    plan = ReadPlan(opened.reader, casting)
    counts = []  # for each leaf of the target, of the values that are read for it
    for path, leaf in pairs:
        if path in below and _targets.is_empty_dict(leaf):
            indices = list(indices_of(below[path]))
            add_stored(plan, indices, framework, None, None)
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
            members = pick(node, {index: next(values) for index in indices_of(node)})
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
    """Returns the framework of a target's arrays. Its empty dicts get arrays of it, too."""
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
        raise TypeError(f"a target cannot have a leaf of type {printable(type(leaf).__qualname__)}")
    torch = sys.modules.get("torch")
    jax = sys.modules.get("jax")
    if torch is not None and isinstance(leaf, torch.Tensor):
        from cairn import _torch

        _check_shape(info, _torch.shape(leaf))
        wanted = numpy_dtype(leaf.dtype)
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


def load_into(opened: Checkpoint, out: Any, partial: bool, callback: Any) -> Any:
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
                f"{_targets.path_text(path)}: an object of type "
                f"{printable(type(leaf).__qualname__)} cannot be read into; "
                "arrays of NumPy, tensors of PyTorch and memoryviews can"
            )
        destinations.append((index, origin, shape, leaf))
    opened.reader.read_into(destinations, callback)
    return out
