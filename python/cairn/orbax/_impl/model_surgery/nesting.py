"""Transformations between flat dicts and trees."""

from typing import Any

from cairn.orbax._impl.model_surgery import arrays
from cairn.orbax._impl.model_surgery.types import Transformation
from cairn.orbax._impl.trees.plain import from_flat_dict, to_flat_dict

_SHOWN = 10


def unflatten(separator: str = ".", *, inplace: bool = False, target: Any = None) -> Transformation:
    """Makes a tree of a flat dict.

    Args:
      separator: between the keys in a name.
      inplace: the values move out of the flat dict, which must be a dict.
      target: a tree whose structure the result has. Its leaves stay where the flat dict has none;
        a warning names them. Names that it does not have are left out.
    """

    def nest(*params: Any) -> Any:
        if len(params) != 1:
            raise AssertionError(f"unflatten takes one dict of arrays, not {len(params)}")
        flat = params[0]
        if inplace and not isinstance(flat, dict):
            raise ValueError(f"unflatten(inplace=True) takes a dict, not {type(flat).__name__}")
        if target is not None:
            flat = flat if inplace else dict(flat)
            defaults = to_flat_dict(target, sep=separator)
            missing = [name for name in defaults if name not in flat]
            if missing:
                arrays.log.warning(
                    "unflatten: %d names of the target have no array and keep its values: %s",
                    len(missing),
                    missing[:_SHOWN],
                )
            flat.update({name: defaults[name] for name in missing})
        return from_flat_dict(flat, target=target, sep=separator, inplace=inplace)

    return nest
