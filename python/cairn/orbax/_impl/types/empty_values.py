"""Empty values, which a checkpoint stores as the name of their kind."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

RESTORE_TYPE_NONE = "None"
RESTORE_TYPE_DICT = "Dict"
RESTORE_TYPE_LIST = "List"
RESTORE_TYPE_TUPLE = "Tuple"
RESTORE_TYPE_NAMED_TUPLE = "NamedTuple"
RESTORE_TYPE_UNKNOWN = "Unknown"

EMPTY_TYPES = (
    RESTORE_TYPE_NONE,
    RESTORE_TYPE_DICT,
    RESTORE_TYPE_LIST,
    RESTORE_TYPE_TUPLE,
    RESTORE_TYPE_NAMED_TUPLE,
)


@dataclasses.dataclass(kw_only=True)
class PyTreeMetadataOptions:
    """support_rich_types: tuples and named tuples come back as such, without a target."""

    support_rich_types: bool = False


class OrbaxEmptyNamedTuple(NamedTuple):
    """The value that an empty named tuple is restored as."""


def _is_rich(pytree_metadata_options: Any) -> bool:
    return bool(getattr(pytree_metadata_options, "support_rich_types", False))


def _is_named_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and hasattr(value, "_fields")


def is_empty_container(value: Any) -> bool:
    """Whether a value is a dict, list or tuple without children."""
    return isinstance(value, list | tuple | Mapping) and not value


def is_supported_empty_value(value: Any, pytree_metadata_options: Any = None) -> bool:
    """Whether a value is None, or an empty container; a named tuple only with rich types."""
    if _is_named_tuple(value):
        return not value and _is_rich(pytree_metadata_options)
    return value is None or is_empty_container(value)


def get_empty_value_typestr(value: Any, pytree_metadata_options: Any) -> str:
    """The name of an empty value's kind. Raises ValueError for other values."""
    if not is_supported_empty_value(value, pytree_metadata_options):
        raise ValueError(
            f"{value} is not a supported empty type with pytree_metadata_options: "
            f"{pytree_metadata_options}."
        )
    if value is None:
        return RESTORE_TYPE_NONE
    if _is_named_tuple(value):
        return RESTORE_TYPE_NAMED_TUPLE
    if isinstance(value, list):
        return RESTORE_TYPE_LIST
    return RESTORE_TYPE_TUPLE if isinstance(value, tuple) else RESTORE_TYPE_DICT


def override_empty_value_typestr(typestr: str, pytree_metadata_options: Any) -> str:
    """The name that counts: without rich types, a named tuple is None."""
    is_lost = typestr == RESTORE_TYPE_NAMED_TUPLE and not _is_rich(pytree_metadata_options)
    return RESTORE_TYPE_NONE if is_lost else typestr


def is_empty_typestr(typestr: str) -> bool:
    """Whether a name is that of an empty value's kind."""
    return typestr in EMPTY_TYPES


def get_empty_value_from_typestr(typestr: str, pytree_metadata_options: Any) -> Any:
    """The empty value of a kind. Raises ValueError for other names."""
    typestr = override_empty_value_typestr(typestr, pytree_metadata_options)
    made: dict[str, Any] = {
        RESTORE_TYPE_NONE: lambda: None,
        RESTORE_TYPE_DICT: dict,
        RESTORE_TYPE_LIST: list,
        RESTORE_TYPE_TUPLE: tuple,
        RESTORE_TYPE_NAMED_TUPLE: OrbaxEmptyNamedTuple,
    }
    if typestr not in made:
        raise ValueError(
            f"Unrecognized typestr: {typestr} with pytree_metadata_options: "
            f"{pytree_metadata_options}."
        )
    return made[typestr]()
