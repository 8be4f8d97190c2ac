"""How the directories of steps are named, and which there are."""

import dataclasses
import datetime
import errno
import functools
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Protocol, TypeVar

from cairn import _cairn
from cairn.orbax._impl.paths.checkpoint_paths import TEMPORARY_MARK, as_path
from cairn.orbax._impl.paths.object_stores import modified_ns
from cairn.orbax._impl.paths.parallel import ask_all
from cairn.orbax._impl.paths.store_path import is_store_url
from cairn.orbax._impl.stored.atomicity import Atomicity, all_temporary_paths
from cairn.orbax._impl.stored.step_metadata import StepMetadata, read_step_metadata


@dataclasses.dataclass(frozen=True)
class Metadata:
    """A step and its path."""

    step: int
    path: Any

    @functools.cached_property
    def _stored(self) -> StepMetadata:
        return read_step_metadata(self.path)

    @property
    def init_timestamp_nsecs(self) -> "int | None":
        """When the save began, in nanoseconds since 1970."""
        return self._stored.init_timestamp_nsecs

    @property
    def commit_timestamp_nsecs(self) -> "int | None":
        """When the save was complete, in nanoseconds since 1970."""
        return self._stored.commit_timestamp_nsecs

    @property
    def commit_timestamp(self) -> datetime.datetime:
        """When the save was complete; if that is not stored, the time of the directory."""
        nanoseconds = self.commit_timestamp_nsecs
        seconds = modified_at(self.path) if nanoseconds is None else nanoseconds / 1e9
        return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)


def modified_at(path: Any) -> float:
    """When a path was changed, in seconds since 1970. For a folder of a store: its newest file."""
    if is_store_url(path):
        return modified_ns(path) / 1e9
    return os.stat(path).st_mtime


MetadataT = TypeVar("MetadataT", covariant=True)


class NameFormat(Protocol[MetadataT]):
    """Names directories of steps, and finds them."""

    def build_name(self, step: int) -> str:
        """The name of a step's directory."""

    def find_all(self, base_path: Any) -> "Iterator[MetadataT]":
        """The complete steps of a directory."""

    def find_step(self, base_path: Any, step: int) -> MetadataT:
        """A complete step. Raises ValueError if it is not there."""


def step_prefix_with_underscore(step_prefix: "str | None") -> str:
    """The prefix with an underscore; "" for None."""
    return "" if step_prefix is None else f"{step_prefix}_"


@dataclasses.dataclass(frozen=True)
class _StandardNameFormat(NameFormat[Metadata]):
    """Names such as 12, 0012, step_12 and step_0012."""

    step_prefix: "str | None" = None
    step_format_fixed_length: "int | None" = None
    single_host_load_and_broadcast: bool = False
    temporary_path_cls: Any = None
    atomicity_options: Any = None

    def __str__(self) -> str:
        return f'StandardNameFormat("{self.build_name(1234)}")'

    def build_name(self, step: int) -> str:
        """The name of a step's directory."""
        return f"{step_prefix_with_underscore(self.step_prefix)}{self._digits(step)}"

    def _digits(self, step: int) -> str:
        if self.step_format_fixed_length is None:
            return f"{step}"  # also of a str, as in Orbax
        return f"{step:0{self.step_format_fixed_length}d}"

    def _atomicity(self) -> Atomicity:
        return Atomicity(self.atomicity_options, self.temporary_path_cls)

    def find_all(self, base_path: Any) -> "Iterator[Metadata]":
        """The complete steps of a directory, in ascending order."""
        base = as_path(base_path)
        atomicity = self._atomicity()
        for step, name in _cairn.list_steps(
            os.fspath(base),
            self.step_prefix,
            self.step_format_fixed_length or 0,
            atomicity.is_in_place,
            atomicity.accepts_renamed,
        ):
            yield Metadata(step=step, path=base / name)

    def find_step(self, base_path: Any, step: int) -> Metadata:
        """A complete step. Raises ValueError if it is not there."""
        path = build_step_path(base_path, self, step)
        if not self._atomicity().at(path).is_complete(path):
            raise ValueError(
                f"No step path found with name={path.name} for step={step} in {base_path}"
            )
        return Metadata(step=step, path=path)


@dataclasses.dataclass(frozen=True)
class _CompositeNameFormat(NameFormat[Any]):
    """Writes by one format and reads by several."""

    write_name_format: NameFormat[Any]
    read_name_formats: Sequence[NameFormat[Any]]

    def __str__(self) -> str:
        return f"Composite([{','.join(str(one) for one in self.read_name_formats)}])"

    @property
    def single_host_load_and_broadcast(self) -> bool:
        """Whether the format for writes asks for it."""
        return bool(getattr(self.write_name_format, "single_host_load_and_broadcast", False))

    def build_name(self, step: int) -> str:
        """The name of a step's directory."""
        return self.write_name_format.build_name(step)

    def find_all(self, base_path: Any) -> "Iterator[Any]":
        """The complete steps; of equal ones that of the first format."""
        seen = set()
        for name_format in self.read_name_formats:
            for metadata in name_format.find_all(base_path):
                if metadata.step not in seen:
                    seen.add(metadata.step)
                    yield metadata

    def find_step(self, base_path: Any, step: int) -> Any:
        """A complete step, by the first format that finds it."""
        errors = []
        for name_format in self.read_name_formats:
            try:
                return name_format.find_step(base_path, step)
            except ValueError as error:
                errors.append(str(error))
        raise ValueError("; ".join(errors))


def standard_name_format(
    *,
    step_prefix: "str | None" = None,
    step_format_fixed_length: "int | None" = None,
    single_host_load_and_broadcast: bool = False,
    temporary_path_cls: Any = None,
    atomicity_options: Any = None,
) -> NameFormat[Any]:
    """Names such as 12, 0012, step_12 and step_0012. The options say which steps are complete."""
    Atomicity(chosen=temporary_path_cls)  # raises for a class that is not known
    return _StandardNameFormat(
        step_prefix,
        step_format_fixed_length,
        single_host_load_and_broadcast,
        temporary_path_cls,
        atomicity_options,
    )


def single_host_load_and_broadcast_name_format(name_format: Any) -> NameFormat[Any]:
    """The format with the option, which has no effect. ValueError for a format of the user's."""
    if not isinstance(name_format, _StandardNameFormat):
        raise ValueError(f"{name_format}: standard_name_format() did not make it")
    return dataclasses.replace(name_format, single_host_load_and_broadcast=True)


def composite_name_format(
    write_name_format: NameFormat[Any], read_name_formats: "Sequence[NameFormat[Any]]"
) -> NameFormat[Any]:
    """Writes by one format, and reads by several, of which it must be one."""
    if write_name_format not in read_name_formats:
        raise ValueError("read_name_formats must have write_name_format among them")
    return _CompositeNameFormat(write_name_format, list(read_name_formats))


def is_standard_name_format(name_format: Any) -> bool:
    """Whether standard_name_format() made it."""
    return isinstance(name_format, _StandardNameFormat)


def build_step_path(base_path: Any, name_format: Any, step: int) -> Any:
    """The path of a step."""
    return as_path(base_path) / name_format.build_name(step)


def build_step_metadatas(
    step_paths: "Iterable[Any]", build_metadata: "Callable[[Any], Any]"
) -> "Iterator[Any]":
    """What the function makes of the paths, without None."""
    for path in step_paths:
        metadata = build_metadata(path)
        if metadata is not None:
            yield metadata


def find_step_path(
    base_path: Any, name_format: Any, *, step: int, include_uncommitted: bool = False
) -> Any:
    """The path of a step. Raises ValueError if it is not there."""
    if include_uncommitted:
        path = build_step_path(base_path, name_format, step)
        if is_store_url(path):
            if Atomicity().at(path).is_left_over(path):
                return path
        else:
            unfinished = as_path(os.fspath(path) + TEMPORARY_MARK)
            if unfinished.exists():
                return unfinished
    return name_format.find_step(base_path, step).path


def maybe_find_step_metadata(base_path: Any, name_format: Any, *, step: int) -> Any:
    """The step, or None."""
    try:
        return name_format.find_step(base_path, step)
    except ValueError:
        return None


def latest_step_metadata(root_path: Any, name_format: Any) -> Any:
    """The step with the largest number; None if there is none."""
    return max(name_format.find_all(root_path), key=lambda found: found.step, default=None)


def step_metadata_of_checkpoint_path(checkpoint_path: Any, name_format: Any) -> Any:
    """The step of a path. Raises ValueError if it is none."""
    path = as_path(checkpoint_path)
    for metadata in name_format.find_all(path.parent):
        if metadata.path.name == path.name:
            return metadata
    raise ValueError(f"{path} is not a step by {name_format}")


# ---- names of any format ----


def step_from_checkpoint_name(name: str) -> int:
    """The step of a name: digits, perhaps after a prefix and '_'. Raises ValueError."""
    # Also the name of an unfinished save.
    found = re.fullmatch(r"(?:.+_)?(\d+)(?:\.orbax-checkpoint-tmp.*)?", name)
    if found is None:
        raise ValueError(f"Unrecognized name format: {name}.")
    return int(found[1])


def checkpoint_steps_paths(checkpoint_dir: Any) -> "list[Any]":
    """The paths of the complete steps of a directory."""
    directory = as_path(checkpoint_dir)
    if not directory.exists():
        return []
    named = [path for path in directory.iterdir() if re.fullmatch(r"(?:.+_)?(\d+)", path.name)]
    complete = ask_all(directory, Atomicity().at(directory).is_complete, named)
    return [path for path, is_complete in zip(named, complete, strict=True) if is_complete]


def checkpoint_steps(checkpoint_dir: Any) -> "list[int]":
    """The complete steps of a directory."""
    return [step_from_checkpoint_name(path.name) for path in checkpoint_steps_paths(checkpoint_dir)]


def any_checkpoint_step(checkpoint_dir: Any) -> "int | None":
    """One of the complete steps, or None. FileNotFoundError if the directory is missing."""
    if not as_path(checkpoint_dir).exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(checkpoint_dir))
    return next(iter(checkpoint_steps(checkpoint_dir)), None)


def tmp_checkpoints(checkpoint_dir: Any) -> "list[str]":
    """The names of what unfinished saves have left."""
    directory = as_path(checkpoint_dir)
    if not directory.exists():
        return []
    if is_store_url(directory):
        return [temporary.get().name for temporary in all_temporary_paths(directory)]
    return [path.name for path in directory.iterdir() if TEMPORARY_MARK in path.name]


def get_save_directory(
    step: int,
    directory: Any,
    name: "str | None" = None,
    step_prefix: "str | None" = None,
    override_directory: Any = None,
    step_format_fixed_length: "int | None" = None,
    step_name_format: Any = None,
) -> Any:
    """The path of a step, or of an item of it."""
    if directory is None:
        raise ValueError("Directory cannot be None.")
    chosen = step_name_format or standard_name_format(
        step_prefix=step_prefix, step_format_fixed_length=step_format_fixed_length
    )
    path = build_step_path(directory, chosen, step)
    if override_directory is not None:  # the whole path, as in Orbax
        path = as_path(override_directory)
    return path if name is None else path / name
