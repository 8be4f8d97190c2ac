"""One plan of reads for many leaves: each box is read once, and all of them in one call."""

from __future__ import annotations

from cairn._casts import number_conversion

TYPE_CHECKING = False  # typing takes longer to import than all of this package
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_Box = tuple[int, list[int], list[int]]  # the leaf's number, origin, shape


class ReadPlan:
    """Boxes to read, and what becomes of each leaf."""

    def __init__(self, reader: Any, casting: str = "unsafe") -> None:
        self.reader = reader
        self.is_checked = casting == "checked"
        self.boxes: list[_Box | int] = []
        self.dtypes: list[str] = []  # of the boxes: the type to which they are converted, or ""
        self.leaves: list[Callable[[list[Any]], Any] | None] = []
        # of whole arrays: the numbers of the leaf and of its box, and finish()
        self.arrays: list[tuple[int, int, Callable[[Any], Any] | None]] = []
        self.casts: dict[Any, Callable[[Any], Any]] = {}

    def add(self, index: int, finish: Callable[[Any], Any] | None, dtype: Any = None) -> None:
        """Reads the whole array; finish() makes the leaf of it, or the array is the leaf.

        Give the same function for many arrays: objects for each of them take time.
        """
        self.arrays.append((len(self.leaves), self._add(index, index, dtype), finish))
        self.leaves.append(None)

    def _add(self, box: _Box | int, index: int, dtype: Any) -> int:
        """Reads a box, and converts it to the type if it can; returns its number."""
        self.boxes.append(box)
        self.dtypes.append(
            "" if dtype is None else number_conversion(self.reader.tensor(index).dtype, dtype)
        )
        return len(self.boxes) - 1

    def cast(self, dtype: Any) -> Callable[[Any], Any]:
        """The function that converts an array to this type."""
        if dtype not in self.casts:
            self.casts[dtype] = lambda array: cast_array(array, dtype, self.is_checked)
        return self.casts[dtype]

    def add_box(
        self,
        index: int,
        origin: list[int],
        extents: list[int],
        finish: Callable[[Any], Any],
        dtype: Any = None,
    ) -> None:
        """Reads a part of the array; finish() makes the leaf of it."""
        at = self._add((index, origin, extents), index, dtype)
        self.leaves.append(lambda arrays: finish(arrays[at]))

    def add_sharded(
        self,
        index: int,
        sharding: Any,
        finish: Callable[[Any], Any],
        wrap: Callable[[Any], Any] = lambda array: array,
        dtype: Any = None,
    ) -> None:
        """Reads each box of a sharding of JAX once; wrap() makes the leaf of the whole array."""
        from cairn import _jax

        shape = self.reader.tensor(index).shape
        at: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
        wanted = []
        for device, origin, extents in _jax.boxes(sharding, shape):
            key = (tuple(origin), tuple(extents))
            if key not in at:
                at[key] = self._add((index, origin, extents), index, dtype)
            wanted.append((device, at[key]))
        self.leaves.append(
            lambda arrays: wrap(
                _jax.assemble(
                    sharding, shape, [(device, finish(arrays[i])) for device, i in wanted]
                )
            )
        )

    def add_keys(self, index: int, sharding: Any, implementation: str) -> None:
        """Reads an array of random keys of JAX. sharding: that of their data, or None."""
        from cairn import _jax

        def wrap(array: Any) -> Any:
            return _jax.wrap_key(array, implementation)

        if sharding is None:
            self.add(index, wrap)
            return
        info = self.reader.tensor(index)
        _jax.check_key_sharding(info.name, sharding, info.shape)
        self.add_sharded(index, sharding, lambda array: array, wrap)

    def add_value(self, value: Any) -> None:
        """A leaf that needs no array."""
        self.leaves.append(lambda arrays: value)

    def run(self, callback: Any) -> list[Any]:
        arrays = self.reader.read(self.boxes, callback, self.dtypes, self.is_checked)
        made = [None if leaf is None else leaf(arrays) for leaf in self.leaves]
        for leaf, box, finish in self.arrays:
            try:
                made[leaf] = arrays[box] if finish is None else finish(arrays[box])
            except (ValueError, TypeError, OverflowError) as error:
                box_or_index = self.boxes[box]
                index = box_or_index if isinstance(box_or_index, int) else box_or_index[0]
                name = self.reader.tensor(index).name
                raise type(error)(f"{name}: {error}" if name else str(error)) from None
        return made


def cast_array(array: Any, dtype: Any, is_checked: bool = False) -> Any:
    """The array with the type `dtype`; itself if it has it, which a read has converted.

    Other types are left to NumPy. With is_checked, an array that is not the same when it is
    converted back is a ValueError.
    """
    import numpy as np

    wanted = np.dtype(dtype)
    if array.dtype == wanted:
        return array
    if is_checked and array.dtype.kind == "V" and array.dtype.isbuiltin == 0:
        raise ValueError(
            f"elements of type {array.dtype.str} cannot be converted to {wanted}: they are bytes "
            "of an unknown meaning"
        )
    made = array.astype(wanted)
    if is_checked:
        back = made.astype(array.dtype)
        lost = (back != array) & ~((back != back) & (array != array))
        if lost.any():
            index = tuple(int(i) for i in np.argwhere(lost)[0])
            raise ValueError(
                f"the element {list(index)} is {array[index]} ({array.dtype}), which the target's "
                f'type {wanted} does not hold exactly; casting="unsafe" converts it nevertheless'
            )
    return made
