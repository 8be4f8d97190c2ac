"""How the directories of steps are named. As cairn.orbax.step, but with CheckpointMetadata."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

from cairn.orbax._impl.paths.parallel import ask_all
from cairn.orbax._impl.steps import step_names
from cairn.orbax._impl.v1.steps.step_types import CheckpointMetadata

_Found = TypeVar("_Found", covariant=True)


class NameFormat(Protocol[_Found]):
    """Names directories of steps, and finds them."""

    def build_name(self, step: int) -> str:
        """The name of a step's directory."""
        ...

    def find_all(self, base_path: Any) -> "Iterator[_Found]":
        """The complete steps of a directory."""
        ...

    def find_step(self, base_path: Any, step: int) -> _Found:
        """A complete step. Raises ValueError if it is not there."""
        ...


@dataclasses.dataclass(frozen=True)
class _StandardNameFormat(NameFormat[CheckpointMetadata[None]]):
    """Names such as 12, 0012, step_12 and step_0012."""

    names: Any
    single_host_load_and_broadcast: bool

    def __str__(self) -> str:
        return str(self.names)

    def build_name(self, step: int) -> str:
        """The name of a step's directory."""
        return str(self.names.build_name(step))

    def find_all(self, base_path: Any) -> "Iterator[CheckpointMetadata[None]]":
        """The complete steps of a directory."""
        yield from ask_all(base_path, _described, self.names.find_all(base_path))

    def find_step(self, base_path: Any, step: int) -> CheckpointMetadata[None]:
        """A complete step. Raises ValueError if it is not there."""
        return _described(self.names.find_step(base_path, step))


def _described(found: Any) -> CheckpointMetadata[None]:
    return CheckpointMetadata(
        found.step,
        found.path,
        metadata=None,
        init_timestamp_nsecs=found.init_timestamp_nsecs,
        commit_timestamp_nsecs=found.commit_timestamp_nsecs,
    )


def standard_name_format(
    *,
    step_prefix: "str | None" = None,
    step_format_fixed_length: "int | None" = None,
    single_host_load_and_broadcast: bool = False,
) -> NameFormat[CheckpointMetadata[None]]:
    """Names such as 12, 0012, step_12 and step_0012. One process has nobody to broadcast to."""
    names = step_names.standard_name_format(
        step_prefix=step_prefix, step_format_fixed_length=step_format_fixed_length
    )
    return _StandardNameFormat(names, single_host_load_and_broadcast)


def composite_name_format(
    write_name_format: NameFormat[Any], read_name_formats: "Sequence[NameFormat[Any]]"
) -> NameFormat[Any]:
    """Writes by one format, and reads by several, of which it must be one."""
    return step_names.composite_name_format(write_name_format, read_name_formats)
