"""Transformations that stack the arrays of numbered layers."""

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from cairn.orbax._impl.model_surgery import arrays
from cairn.orbax._impl.model_surgery.types import Transformation


@dataclasses.dataclass(frozen=True)
class _Options:
    """How arrays are stacked. See stack()."""

    expected_count: "int | None"
    axis: int
    filler_mapping: "Mapping[str, float] | None"
    default_filler: "float | None"
    target_sharding: Any

    def filler(self, name: str) -> "float | None":
        """The value that stands for missing arrays of a stack."""
        for pattern, value in (self.filler_mapping or {}).items():
            if re.search(pattern, name):
                return value
        return self.default_filler


def _place(pattern: "re.Pattern[str]", name: str) -> "tuple[str, int] | None":
    """The name of the stack and the number in it, if an array belongs to one."""
    found = pattern.search(name)
    if found is None:
        return None
    if pattern.groups != 1:
        raise ValueError(
            f"stack: the pattern {pattern.pattern!r} has {pattern.groups} groups; it must have "
            "one, which is the number"
        )
    numbers = re.findall(r"\d+", found.group(1))
    if len(numbers) != 1:
        raise AssertionError(f"stack: {found.group(1)!r} in {name!r} must have one number")
    return name[: found.start(1)] + name[found.end(1) :], int(numbers[0])


def _sharded(items: "list[Any]", axis: int, sharding: Any) -> Any:
    """A stack of arrays of the host. Each device gets its part, and no more is made at a time."""
    import jax
    import numpy as np

    shape = list(items[0].shape)
    shape.insert(axis, len(items))

    def part(index: Any) -> Any:
        rest = index[:axis] + index[axis + 1 :]
        return np.stack([np.asarray(item)[rest] for item in items[index[axis]]], axis)

    return jax.make_array_from_callback(tuple(shape), sharding, part)


def _stacked(items: "list[Any]", options: _Options) -> Any:
    import jax
    import jax.numpy as jnp
    import numpy as np

    axis, sharding = options.axis, options.target_sharding
    if axis < 0:
        axis += items[0].ndim + 1
    has_numpy = any(isinstance(item, np.ndarray) for item in items)
    if sharding is not None and arrays.are_on_host(items):
        return _sharded(items, axis, sharding)
    stacked = np.stack(items, axis) if has_numpy else jnp.stack(items, axis)
    return stacked if sharding is None else jax.device_put(stacked, sharding)


def _filled(name: str, found: "dict[int, Any]", count: int, filler: float) -> "list[Any]":
    """The arrays of a stack, with the filler in place of those that are missing."""
    import jax.numpy as jnp
    import numpy as np

    if len(found) > count:
        raise ValueError(f"stack {name!r}: {len(found)} arrays, expected at most {count}")
    for number in found:
        if number >= count:
            arrays.log.warning("stack %s: number %d is left out: %d expected", name, number, count)
    if len(found) != count:
        arrays.log.warning("stack %s: %d of %d arrays: %s fills", name, len(found), count, filler)
    first = next(iter(found.values()))
    padding = np.full(first.shape, filler).astype(first.dtype)
    rest = padding if isinstance(first, np.ndarray) else jnp.asarray(padding)
    return [found.get(number, rest) for number in range(count)]


def _items(name: str, found: "dict[int, Any]", count: int, options: _Options) -> "list[Any]":
    """The arrays of a stack in their order."""
    filler = options.filler(name)
    if filler is not None:
        return _filled(name, found, count, filler)
    if sorted(found) != list(range(count)):
        raise ValueError(
            f"stack {name!r}: the arrays have the numbers {sorted(found)}, expected 0 to "
            f"{count - 1}; default_filler or filler_mapping fills what is missing"
        )
    return [found[number] for number in range(count)]


def _collect(
    params: Any, pattern: "re.Pattern[str]", inplace: bool
) -> "tuple[dict[str, Any], dict[str, dict[int, Any]]]":
    """The arrays without a stack, and the stacks. inplace: these arrays leave the dict."""
    rest: dict[str, Any] = {}
    stacks: dict[str, dict[int, Any]] = {}
    moved = []
    for name, value in params.items():
        place = _place(pattern, name)
        if place is None:
            rest[name] = value
            continue
        stack_name, number = place
        stack = stacks.setdefault(stack_name, {})
        if number in stack:
            raise AssertionError(f"stack {stack_name!r}: two arrays have the number {number}")
        stack[number] = value
        moved.append(name)
    for name in moved if inplace else ():
        del params[name]
    return rest, stacks


def stack(
    pattern: str,
    *,
    expected_count: "int | None" = None,
    axis: int = 0,
    filler_mapping: "Mapping[str, float] | None" = None,
    default_filler: "float | None" = None,
    inplace: bool = False,
    sort_by_size: bool = True,
    target_sharding: Any = None,
) -> Transformation:
    """Stacks arrays whose names differ in a number only.

    Args:
      pattern: a regular expression with one group, which holds the number. The name of the stack
        is the name without the group.
      expected_count: the length of all stacks. None: the highest number of all stacks, plus one.
      axis: the new axis.
      filler_mapping: by a regular expression for the stack's name, the value of missing arrays.
      default_filler: that value for other stacks. None: a missing array is a ValueError.
      inplace: the stacked arrays leave the dict that is given.
      sort_by_size: the largest stacks are made first.
      target_sharding: of the stacks.
    """
    compiled = re.compile(pattern)
    options = _Options(expected_count, axis, filler_mapping, default_filler, target_sharding)

    def transform(*params: Any) -> Any:
        given = arrays.only(params, "stacks")
        if inplace and not isinstance(given, dict):
            raise ValueError(f"stack(inplace=True) takes a dict, not {type(given).__name__}")
        result, stacks = _collect(given, compiled, inplace)
        del given, params
        names = list(stacks)
        if sort_by_size:
            names.sort(key=lambda name: -sum(item.nbytes for item in stacks[name].values()))
        count = options.expected_count
        if count is None:
            count = max((max(found) + 1 for found in stacks.values()), default=0)
        for name in names:
            result[name] = _stacked(_items(name, stacks.pop(name), count, options), options)
        return result

    return transform
