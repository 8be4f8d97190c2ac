"""The entry of a leaf in _METADATA."""

import dataclasses
from typing import Any

from cairn.orbax._impl.types.empty_values import is_empty_typestr, override_empty_value_typestr


@dataclasses.dataclass
class ValueMetadataEntry:
    """value_type: the name of the leaf's type, or of an empty container.

    skip_deserialize: nothing is stored but the name. write_shape: of the piece that one process
    wrote.
    """

    value_type: str
    skip_deserialize: bool = False
    write_shape: "tuple[int, ...] | None" = None

    def to_json(self) -> "dict[str, Any]":
        """The object of JSON."""
        stored: dict[str, Any] = {
            "value_type": self.value_type,
            "skip_deserialize": self.skip_deserialize,
        }
        if self.write_shape is not None:
            stored["write_shape"] = list(self.write_shape)
        return stored

    @classmethod
    def from_json(
        cls, json_dict: "dict[str, Any]", pytree_metadata_options: Any
    ) -> "ValueMetadataEntry":
        """The entry of an object of JSON. KeyError if it lacks a member.

        Without rich types, an empty named tuple is None.
        """
        typestr = override_empty_value_typestr(json_dict["value_type"], pytree_metadata_options)
        shape = json_dict.get("write_shape")
        return cls(typestr, json_dict["skip_deserialize"], None if shape is None else tuple(shape))

    @classmethod
    def build(cls, info: Any, save_arg: Any) -> "ValueMetadataEntry":
        """The entry of a leaf that is saved, of its ParamInfo."""
        del save_arg  # as in Orbax
        if info.value_typestr is None:
            raise AssertionError(f"{info.name}: ParamInfo.value_typestr is None in a save")
        return cls(info.value_typestr, is_empty_typestr(info.value_typestr), info.write_shape)
