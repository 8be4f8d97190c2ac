"""How a checkpoint becomes complete: by a rename, or by a file that is written last."""

import copy
import os
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.base import options as option_types
from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.paths.checkpoint_paths import (
    COMMIT_FILE,
    TEMPORARY_MARK,
    as_path,
    is_gcs_path,
    is_temporary,
)
from cairn.orbax._impl.paths.permissions import mode_of
from cairn.orbax._impl.paths.store_path import is_store_url

TMP_DIR_SUFFIX = TEMPORARY_MARK
COMMIT_SUCCESS_FILE = COMMIT_FILE
_OWN = "saves make and complete their directories by themselves; give the class to a checkpointer"
__getattr__ = _hints(
    __name__,
    dict.fromkeys(("create_all", "create_all_async", "on_commit_callback"), _OWN)
    | {"ReadOnlyTemporaryPath": _OWN, "DeferredWritableTemporaryPath": _OWN},
)


class ValidationError(ValueError):
    """The path is not one of this kind."""


class TemporaryPath:
    """The interface of a directory that a save writes."""

    IS_IN_PLACE = False

    def __init__(self, temporary_path: Any, final_path: Any, file_options: Any = None) -> None:
        self._temporary = as_path(temporary_path)
        self._final = as_path(final_path)
        self._native: Any = None
        self._mode = mode_of(file_options)

    @classmethod
    def from_final(
        cls,
        final_path: Any,
        *,
        checkpoint_metadata_store: Any = None,
        file_options: Any = None,
        snapshot_type: Any = None,
    ) -> Any:
        """That of a save to a path."""
        if checkpoint_metadata_store is not None or snapshot_type is not None:
            raise NotImplementedError(
                "checkpoint_metadata_store, snapshot_type: the metadata are always written, and "
                "there are no snapshots"
            )
        final = as_path(final_path)
        return cls(cls._temporary_of(final), final, file_options)

    @classmethod
    def from_temporary(
        cls, temporary_path: Any, *, file_options: Any = None, snapshot_type: Any = None
    ) -> Any:
        """That of a directory that a save has left."""
        del snapshot_type
        path = as_path(temporary_path)
        return cls(path, cls._final_of(path), file_options)

    @classmethod
    def _temporary_of(cls, final: Any) -> Any:
        return final

    @classmethod
    def _final_of(cls, temporary: Any) -> Any:
        return temporary

    def get(self) -> Any:
        """Where the save writes."""
        return self._temporary

    def get_final(self) -> Any:
        """Where the checkpoint will be."""
        return self._final

    async def create(self) -> Any:
        """Makes the directory. Removes what an interrupted save has left there."""
        # A checkpoint is replaced in place only, as in Orbax.
        in_place = self.IS_IN_PLACE
        check_can_rename(self._final, in_place)
        self._native, _ = _cairn.CheckpointDirectory.create(
            os.fspath(self._final), replace=in_place, in_place=in_place, mode=self._mode
        )
        return self._temporary

    async def finalize(self) -> None:
        """Completes the checkpoint, and makes it durable."""
        if self._native is None:
            raise ValueError(f"{self._temporary}: call create() first")
        native, self._native = self._native, None
        native.commit("null")

    @classmethod
    async def validate(cls, temporary_path: Any) -> None:
        """Raises ValidationError unless a save may have left the path."""
        cls._validate(as_path(temporary_path))

    @classmethod
    def _validate(cls, path: Any) -> None:
        if not is_store_url(path) and os.path.islink(path):
            raise ValidationError(f"{path} is a symbolic link, not the directory of a save")
        cls._check(path, False)
        _check_directory(path)

    @classmethod
    def is_left_over(cls, path: Any) -> bool:
        """Whether a save may have left the path."""
        try:
            cls._validate(path)
        except ValidationError:
            return False
        return True

    @classmethod
    async def validate_final(cls, final_path: Any) -> None:
        """Raises ValidationError unless the path is a complete checkpoint."""
        path = as_path(final_path)
        cls._check(path, True)
        _check_directory(path)

    @classmethod
    def _check(cls, path: Any, is_final: bool) -> None:
        raise NotImplementedError

    @classmethod
    def is_complete(cls, path: Any) -> bool:
        """Whether the path is a complete checkpoint."""
        try:
            cls._check(path, True)
            _check_directory(path)
        except ValidationError:
            return False
        return True


def check_can_rename(path: Any, is_in_place: bool) -> None:
    """Raises NotImplementedError for a save to a store that would end with a rename."""
    if is_store_url(path) and not is_in_place:
        raise NotImplementedError(
            f"{path}: a store cannot rename what was saved; leave out "
            "AtomicityMode.ATOMIC_RENAME and AtomicRenameTemporaryPath"
        )


def mark_item(path: Any) -> None:
    """Adds the file of a commit to an item of a store, as Orbax does on gs://."""
    if is_store_url(path):
        (path / COMMIT_FILE).write_text(f"Checkpoint commit was successful to {path}")


def _check_directory(path: Any) -> None:
    if not path.is_dir():
        raise ValidationError(f"{path} is not a directory")


TemporaryPathBase = TemporaryPath


class AtomicRenameTemporaryPath(TemporaryPath):
    """A directory beside the path, which is renamed at the end."""

    @classmethod
    def _temporary_of(cls, final: Any) -> Any:
        return final.parent / (final.name + TEMPORARY_MARK)

    @classmethod
    def _final_of(cls, temporary: Any) -> Any:
        if TEMPORARY_MARK not in temporary.name:
            raise ValueError(f"{temporary}: the name has no {TEMPORARY_MARK!r}")
        return temporary.parent / temporary.name.partition(TEMPORARY_MARK)[0]

    @classmethod
    def _check(cls, path: Any, is_final: bool) -> None:
        if is_temporary(path) == is_final:
            has = "has" if is_final else "does not have"
            raise ValidationError(f"{path}: the name {has} {TEMPORARY_MARK!r}")


class CommitFileTemporaryPath(TemporaryPath):
    """The path itself. The checkpoint is complete when it has the file commit_success.txt."""

    IS_IN_PLACE = True

    @classmethod
    def _check(cls, path: Any, is_final: bool) -> None:
        if (path / COMMIT_FILE).exists() != is_final:
            has = "does not have" if is_final else "has"
            raise ValidationError(f"{path} {has} the file {COMMIT_FILE}")


is_renamed = AtomicRenameTemporaryPath.is_complete


class Atomicity:
    """What AtomicityOptions and temporary_path_class choose. The class takes precedence.

    Without either, a store has the commit file: nothing can be renamed there. at() knows the place.
    """

    def __init__(
        self, options: "option_types.AtomicityOptions | None" = None, chosen: Any = None
    ) -> None:
        mode = getattr(options, "mode", option_types.AtomicityMode.AUTO)
        in_place = mode == option_types.AtomicityMode.COMMIT_FILE
        self.path_class: type[TemporaryPath] = (
            CommitFileTemporaryPath if in_place else AtomicRenameTemporaryPath
        )
        self._is_chosen = chosen is not None or mode != option_types.AtomicityMode.AUTO
        if chosen is not None:
            self.path_class = own_class(chosen)
        self._accepts_recorded = False
        self.accepts_renamed = bool(getattr(options, "allow_legacy_atomic_rename", False))

    def at(self, path: Any) -> "Atomicity":
        """What counts for the checkpoints at a path, or below it."""
        if self._is_chosen or not is_store_url(path):
            return self
        there = copy.copy(self)
        there.path_class = CommitFileTemporaryPath
        # A copy of a local checkpoint of an old version has no commit file. Google's stores have
        # none of these: Orbax has always written the file there.
        there._accepts_recorded = not is_gcs_path(path)
        return there

    @property
    def is_in_place(self) -> bool:
        """Whether a checkpoint is written at its path."""
        return self.path_class.IS_IN_PLACE

    def is_left_over(self, path: Any) -> bool:
        """Whether a path is a directory that a save has not completed."""
        path = as_path(path)
        if self.accepts_renamed and self.is_in_place and is_renamed(path):
            return False
        return self.path_class.is_left_over(path) and not self._is_recorded(path)

    def is_complete(self, path: Any) -> bool:
        """Whether a path is a checkpoint that a save has completed."""
        path = as_path(path)
        if self.path_class.is_complete(path) or (self.accepts_renamed and is_renamed(path)):
            return True
        return self._is_recorded(path)

    def _is_recorded(self, path: Any) -> bool:
        """Whether a checkpoint without the file of a commit counts as complete by its records."""
        if not self._accepts_recorded or not path.is_dir():
            return False
        return not _cairn.incomplete_reason(os.fspath(path))


def is_path_temporary(
    path: Any, *, temporary_path_cls: Any = None, atomicity_options: Any = None
) -> bool:
    """Whether a path is a directory that a save has not completed."""
    return Atomicity(atomicity_options, temporary_path_cls).at(path).is_left_over(path)


def all_temporary_paths(
    root_directory: Any, *, temporary_path_cls: Any = None, atomicity_options: Any = None
) -> "list[TemporaryPath]":
    """The unfinished saves of a directory. Nothing if it is missing."""
    root = as_path(root_directory)
    chosen = Atomicity(atomicity_options, temporary_path_cls).at(root)
    paths = root.iterdir() if root.exists() else ()
    return [chosen.path_class.from_temporary(one) for one in paths if chosen.is_left_over(one)]


def is_path_finalized(
    path: Any, *, temporary_path_cls: Any = None, atomicity_options: Any = None
) -> bool:
    """Whether a path is a checkpoint that a save has completed."""
    return Atomicity(atomicity_options, temporary_path_cls).at(path).is_complete(path)


def own_class(chosen: Any) -> "type[TemporaryPath]":
    """The class of this module for one, or for Orbax's class of the same name.

    Raises NotImplementedError for another one.
    """
    for known in (AtomicRenameTemporaryPath, CommitFileTemporaryPath):
        if chosen is known or (
            getattr(chosen, "__name__", "") == known.__name__
            and getattr(chosen, "__module__", "").startswith("orbax.checkpoint.")
        ):
            return known
    raise NotImplementedError(
        f"temporary_path_class: {chosen!r} is neither AtomicRenameTemporaryPath nor "
        "CommitFileTemporaryPath of cairn.orbax.path.atomicity; cairn.orbax has no others"
    )
