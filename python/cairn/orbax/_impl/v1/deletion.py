"""delete and delete_async: of a whole checkpoint, or of one of its parts."""

import os
import shutil
import uuid
from collections.abc import Callable
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.paths.checkpoint_paths import STEP_METADATA_FILE, TREE_METADATA_FILE
from cairn.orbax._impl.paths.store_path import is_store_url
from cairn.orbax._impl.paths.text_files import load_json
from cairn.orbax._impl.steps.deletion import move_to_trash, time_suffix, trash_folder
from cairn.orbax._impl.v1.checks import check_options
from cairn.orbax._impl.v1.context import Context, get_context
from cairn.orbax._impl.v1.deletion_record import (
    metadata_without,
    read_record,
    remove_temporary_files,
    sync_folder,
    write_durably,
)
from cairn.orbax._impl.v1.errors import DeletionRecoveryError, InvalidLayoutError
from cairn.orbax._impl.v1.given_paths import given_path
from cairn.orbax._impl.v1.names import DELETION_FILE, INDICATOR_FILE, RESERVED, check_to_delete
from cairn.orbax._impl.v1.options import CheckpointLayout
from cairn.orbax._impl.v1.responses import AsyncResponse, Background


def delete(
    path: Any, *, checkpointable_name: "str | None" = None, missing_ok: bool = False
) -> bool:
    """Deletes a checkpoint, or one of its parts. Returns whether there was something to delete.

    A deletion of a part that is interrupted is ended by another call with the same arguments. A
    directory that holds anything besides a checkpoint is not deleted.

    Args:
      path: a checkpoint.
      checkpointable_name: the name of a part; None: the whole checkpoint.
      missing_ok: nothing there is not an error.

    Raises:
      FileNotFoundError: nothing is there.
      InvalidLayoutError: the path is not a checkpoint of Orbax.
      ValueError: this is not the name of a part, or the part is the last one.
      DeletionRecoveryError: the deletion of another part is unfinished.
    """
    return delete_async(
        path, checkpointable_name=checkpointable_name, missing_ok=missing_ok
    ).result()


def delete_async(
    path: Any, *, checkpointable_name: "str | None" = None, missing_ok: bool = False
) -> "AsyncResponse[bool]":
    """As delete(), in the background, after it is known that it is possible."""
    work = begin_deletion(get_context(), path, checkpointable_name, missing_ok, is_step=False)
    return Background(work, "cairn-orbax-delete")


def begin_deletion(
    context: Context, path: Any, name: "str | None", missing_ok: bool, *, is_step: bool
) -> "Callable[[], bool]":
    """Checks what can be deleted. Returns the function that does it."""
    if name is not None:
        check_to_delete(name)
    if not isinstance(missing_ok, bool):
        raise TypeError(f"missing_ok must be a bool, not {type(missing_ok)}")
    check_options(context)
    path = given_path(context, path)
    trash = _trash_of(context, path)
    if os.path.islink(path):
        raise ValueError(f"{path} is a symbolic link: give the path of the checkpoint")
    if not path.exists():
        if missing_ok:
            return lambda: False
        raise FileNotFoundError(f"{path}: there is no checkpoint to delete")
    _check_checkpoint(context, path, is_step)
    if name is None:
        suffix = time_suffix() if is_step else uuid.uuid4().hex
        return lambda: _delete_all(path, trash, suffix)
    if os.path.islink(path / name):
        raise ValueError(
            f"{path / name} is a symbolic link, so it is not deleted; remove the link and delete "
            "again, or delete what it leads to"
        )
    record = read_record(path)
    if record is not None and record["checkpointable_name"] != name:
        raise DeletionRecoveryError(
            f"{path}: the deletion of {record['checkpointable_name']!r} is unfinished; end it first"
        )
    if record is None:
        try:
            record = _new_record(path, name, trash)
        except FileNotFoundError:
            if missing_ok and not (path / name).exists():
                return lambda: False
            raise
        write_durably(path / DELETION_FILE, record, new=True)
    after, destination = record["updated_metadata"], record["destination"]
    return lambda: _delete_part(path, name, after, destination)


def _trash_of(context: Context, path: Any) -> Any:
    """The folder in the bucket where deleted things go; None: they are removed."""
    bucket_path = context.deletion.gcs_deletion_options.todelete_full_path
    trash = trash_folder(path, bucket_path)
    if trash is not None and (trash == path or path in trash.parents):
        raise ValueError(f"todelete_full_path: {trash} is in {path}")
    return trash


def _check_checkpoint(context: Context, path: Any, is_step: bool) -> None:
    if not path.is_dir():
        raise NotADirectoryError(f"{path} is not a directory")
    if context.checkpoint_layout == CheckpointLayout.SAFETENSORS:
        raise NotImplementedError(f"{path}: delete is for checkpoints of Orbax; remove the file")
    if is_step:
        return
    if any(
        (path.parent / file).exists()
        for file in (INDICATOR_FILE, STEP_METADATA_FILE, DELETION_FILE)
    ):
        raise InvalidLayoutError(
            f"{path} is a part of the checkpoint {path.parent}: delete that, with "
            "checkpointable_name"
        )
    marks = (INDICATOR_FILE, STEP_METADATA_FILE, TREE_METADATA_FILE)
    if any(path.iterdir()) and not any((path / file).is_file() for file in marks):
        raise InvalidLayoutError(f"{path} is not a checkpoint of Orbax")


def _new_record(path: Any, name: str, trash: Any) -> "dict[str, Any]":
    before = load_json(path / STEP_METADATA_FILE)
    handlers = before.get("item_handlers") if isinstance(before, dict) else None
    if not isinstance(handlers, dict):
        raise InvalidLayoutError(f"{path} has no named parts")
    if name not in handlers or not (path / name).is_dir():
        raise FileNotFoundError(f"{path}: there is no checkpointable {name!r}")
    others = [one for one in handlers if one != name and one not in RESERVED]
    if not any((path / one).is_dir() for one in others):
        raise ValueError(f"{path}: {name!r} is the last part; delete the whole checkpoint instead")
    operation = uuid.uuid4().hex
    return {
        "operation_id": operation,
        "checkpointable_name": name,
        "destination": None if trash is None else str(trash / f"{name}-{operation}"),
        "original_metadata": before,
        "updated_metadata": metadata_without(before, name),
    }


def _delete_all(path: Any, trash: Any, suffix: str) -> bool:
    if trash is not None:
        move_to_trash(path, trash, suffix)
    elif any(path.iterdir()):
        _cairn.remove_checkpoint(os.fspath(path))
    else:
        path.rmdir()
    return True


def _delete_part(path: Any, name: str, after: Any, destination: "str | None") -> bool:
    part = path / name
    if part.exists():
        if destination is not None:
            part.rename(destination)
        elif is_store_url(path):
            part.rmtree()
        else:
            shutil.rmtree(part)
    write_durably(path / STEP_METADATA_FILE, after)
    remove_temporary_files(path)
    (path / DELETION_FILE).unlink()
    sync_folder(path)
    return True
