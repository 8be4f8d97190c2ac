"""Options of a Context.

An option that asks for something that cairn.orbax does not have raises NotImplementedError when it
is used, with a hint.
"""

import dataclasses
import enum
import pathlib
from collections.abc import Callable
from typing import Any

from cairn.orbax._impl.base.options import AtomicityMode
from cairn.orbax._impl.types.empty_values import PyTreeMetadataOptions
from cairn.orbax._impl.v1.frozen import Options


class CheckpointLayout(enum.Enum):
    """The format of a checkpoint. AUTO: found when it is loaded; a save writes ORBAX."""

    ORBAX = "orbax"
    SAFETENSORS = "safetensors"
    AUTO = "auto"


@dataclasses.dataclass(kw_only=True)
class AsyncOptions(Options):
    """How a save goes on in the background.

    timeout_secs: a save that takes longer is stopped, removed, and fails.
    post_finalization_callback is called when an asynchronous save is complete. Directories are made
    before a save returns, which satisfies both values of create_directories_asynchronously.
    """

    timeout_secs: "int | None" = 1200
    post_finalization_callback: "Callable[[], None] | None" = None
    create_directories_asynchronously: bool = True


@dataclasses.dataclass(kw_only=True)
class AtomicityOptions(Options):
    """How a checkpoint becomes complete: by a rename, which also leaves a commit file.

    allow_legacy_atomic_rename is about object stores.
    """

    mode: AtomicityMode = AtomicityMode.AUTO
    allow_legacy_atomic_rename: bool = False


@dataclasses.dataclass(kw_only=True)
class MultiprocessingOptions(Options):
    """Which processes save. There is one, which has no barriers that need a prefix."""

    primary_host: "int | None" = 0
    active_processes: "set[int] | None" = None
    barrier_sync_key_prefix: "str | None" = None


def default_path_class() -> Any:
    """The class of paths: epath.Path if etils is installed, else pathlib.Path."""
    try:
        from etils import epath
    except ImportError:
        return pathlib.Path
    return epath.Path


@dataclasses.dataclass(kw_only=True)
class FileOptions(Options):
    """The class of paths. Checks of files need no other process, so that none is skipped."""

    path_permission_mode: "int | None" = None
    path_class: Any = dataclasses.field(default_factory=default_path_class)
    skip_sync_file_validations: bool = False


@dataclasses.dataclass(kw_only=True)
class _PyTreeSaving(Options):
    """pytree_metadata_options: whether tuples come back as such without a target."""

    pytree_metadata_options: PyTreeMetadataOptions = dataclasses.field(
        default_factory=PyTreeMetadataOptions
    )


@dataclasses.dataclass(kw_only=True)
class _PyTreeLoading(Options):
    """partial_load: what the target lacks is not read."""

    partial_load: bool = False


@dataclasses.dataclass(kw_only=True)
class PyTreeOptions(Options):
    """How trees are saved and loaded."""

    Saving = _PyTreeSaving
    Loading = _PyTreeLoading

    saving: _PyTreeSaving = dataclasses.field(default_factory=_PyTreeSaving)
    loading: _PyTreeLoading = dataclasses.field(default_factory=_PyTreeLoading)


# The names by which Orbax prints them.
_PyTreeSaving.__qualname__ = "PyTreeOptions.Saving"
_PyTreeLoading.__qualname__ = "PyTreeOptions.Loading"


@dataclasses.dataclass(kw_only=True)
class PathwaysOptions(Options):
    """Options of Pathways, which cannot be set."""

    checkpointing_impl: Any = None


@dataclasses.dataclass(kw_only=True)
class _GcsDeletionOptions(Options):
    """todelete_full_path: where deleted checkpoints of a bucket go."""

    todelete_full_path: "str | None" = None


@dataclasses.dataclass(kw_only=True)
class DeletionOptions(Options):
    """How checkpoints are deleted. The option is for object stores only, as in Orbax."""

    GcsDeletionOptions = _GcsDeletionOptions

    gcs_deletion_options: _GcsDeletionOptions = dataclasses.field(
        default_factory=_GcsDeletionOptions
    )
