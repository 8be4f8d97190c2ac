"""The records of the arrays that each process saved (array_metadatas), and their checks."""

import functools
from collections.abc import Callable
from typing import Any

from cairn.orbax._impl.base.processes import process_count
from cairn.orbax._impl.types.array_metadata import RANDOM_KEY_IMPL, SerializedArrayMetadata
from cairn.orbax._impl.types.leaf_options import ArrayMetadataStore

Store = ArrayMetadataStore  # its name in Orbax's module

Metadatas = dict[int, list[SerializedArrayMetadata]]  # by the number of the process


def called_natively(validator: Any) -> "Callable[[Any], None] | None":
    """A validator as a function that the native part calls; None for None."""
    return None if validator is None else functools.partial(_validate, validator)


def _validate(validator: Any, recorded: "dict[int, list[tuple[str, Any, Any, str]]]") -> None:
    """Gives a validator what the native part has read."""
    validator.validate_all_array_metadatas(
        {process: [_entry(*one) for one in some] for process, some in recorded.items()}
    )


def _entry(name: str, write_shape: Any, chunk_shape: Any, key_impl: str) -> SerializedArrayMetadata:
    return SerializedArrayMetadata(
        param_name=name,
        write_shape=tuple(write_shape),
        chunk_shape=tuple(chunk_shape),
        ext_metadata={RANDOM_KEY_IMPL: key_impl} if key_impl else None,
    )


class Validator:
    """Checks that all processes have noted the same. Programs derive checks of their own."""

    def validate_all_array_metadatas(self, array_metadatas: Metadatas) -> None:
        """Raises ValueError where two processes differ, or one has noted nothing."""
        (first, expected), *others = array_metadatas.items()
        if not expected:
            raise ValueError(f"ArrayMetadata Store contains no metadata for process_index={first}.")
        if not others and process_count() != 1:
            raise ValueError(
                f"ArrayMetadata Store contains metadata from just one process "
                f"(process_index={first}), but found {process_count()} processes."
            )
        for process, found in others:
            _compare({one.param_name: one for one in expected}, found, f"{first} and {process}")


def _compare(
    expected: "dict[str, SerializedArrayMetadata]",
    found: "list[SerializedArrayMetadata]",
    processes: str,
) -> None:
    different = expected.keys() ^ {one.param_name for one in found}
    if different or len(expected) != len(found):
        raise ValueError(
            f"ArrayMetadata Store: the processes {processes} have different params: "
            f"{sorted(different)}"
        )
    parts: dict[str, Callable[[SerializedArrayMetadata], Any]] = {
        "chunk_shape": lambda one: one.chunk_shape,
        "write_shape": lambda one: one.write_shape,
        "ext_metadata": lambda one: (
            type(one.ext_metadata),
            (one.ext_metadata or {}).get(RANDOM_KEY_IMPL),
        ),
    }
    for one in found:
        other = expected[one.param_name]
        for name, part in parts.items():
            if part(one) != part(other):
                raise ValueError(
                    f"ArrayMetadata Store contains different {name} for param {one.param_name}: "
                    f"the processes {processes} have {getattr(other, name)} and "
                    f"{getattr(one, name)}"
                )
