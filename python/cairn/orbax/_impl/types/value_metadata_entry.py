"""What _METADATA says of a leaf."""

import dataclasses
from typing import Any


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
        typestr = json_dict["value_type"]
        rich = getattr(pytree_metadata_options, "support_rich_types", False)
        if typestr == "NamedTuple" and not rich:
            typestr = "None"
        shape = json_dict.get("write_shape")
        return cls(typestr, json_dict["skip_deserialize"], None if shape is None else tuple(shape))

    @classmethod
    def build(cls, info: Any, save_arg: Any) -> "ValueMetadataEntry":
        """The entry of a leaf that is saved, of its ParamInfo."""
        del save_arg  # as in Orbax
        if info.value_typestr is None:
            raise AssertionError(f"{info.name}: ParamInfo.value_typestr is None in a save")
        is_empty = info.value_typestr in EMPTY_TYPES
        return cls(info.value_typestr, is_empty, info.write_shape)


EMPTY_TYPES = ("None", "Dict", "List", "Tuple", "NamedTuple")
