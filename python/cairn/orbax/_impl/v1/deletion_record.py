"""The file that a deletion of one checkpointable leaves until it is done.

A program that finds it knows what it must not read, and can end the deletion: the file holds the
metadata of the checkpoint before and after it.
"""

import contextlib
import fcntl
import json
import logging
import os
import tempfile
from collections.abc import Collection
from typing import Any

from cairn.orbax._impl.paths.checkpoint_paths import STEP_METADATA_FILE
from cairn.orbax._impl.paths.store_path import StorePath, is_store_url
from cairn.orbax._impl.paths.text_files import create_whole, load_json, write_whole
from cairn.orbax._impl.steps.deletion import bucket_of
from cairn.orbax._impl.v1.errors import DeletionInProgressError, DeletionRecoveryError
from cairn.orbax._impl.v1.names import DELETION_FILE, check_to_delete

_log = logging.getLogger("cairn.orbax")
_TEMPORARY = ".orbax-delete-"  # the prefix of files that are being written


def metadata_without(metadata: "dict[str, Any]", name: str) -> "dict[str, Any]":
    """The metadata of a checkpoint after the deletion of a checkpointable."""
    handlers = dict(metadata["item_handlers"])
    del handlers[name]
    return {**metadata, "item_handlers": handlers}


def read_record(path: Any) -> "dict[str, Any] | None":
    """The record of an unfinished deletion. Raises DeletionRecoveryError for one that is wrong."""
    file = path / DELETION_FILE
    if not file.exists():
        return None
    try:
        record = load_json(file)
        check_to_delete(record["checkpointable_name"])
        operation = record["operation_id"]
        if len(operation) != 32 or set(operation) - set("0123456789abcdef"):
            raise ValueError(f"operation_id is {operation!r}, not 32 hexadecimal digits")
        before, after = record["original_metadata"], record["updated_metadata"]
        if after != metadata_without(before, record["checkpointable_name"]):
            raise ValueError("updated_metadata does not follow from original_metadata")
        if load_json(path / STEP_METADATA_FILE) not in (before, after):
            raise ValueError(f"{STEP_METADATA_FILE} is another one")
        if record.get("destination") is not None and not is_store_url(path):
            raise ValueError("it has a destination, which only object stores have")
        record["destination"] = _destination(path, record)
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        raise DeletionRecoveryError(
            f"{file}: the record of an unfinished deletion is wrong: {error!r}; remove the whole "
            "checkpoint, or the file if nothing is missing"
        ) from error
    return dict(record)


def _destination(path: Any, record: "dict[str, Any]") -> "str | None":
    """Where the checkpointable goes. Raises ValueError for a place that no deletion chooses."""
    destination = record.get("destination")
    if destination is None:
        return None
    target = StorePath(destination)
    if (
        bucket_of(target) != bucket_of(path)
        or path in target.parents
        or target.name != f"{record['checkpointable_name']}-{record['operation_id']}"
    ):
        raise ValueError(f"destination is {destination!r}")
    return str(destination)


def check_not_in_deletion(path: Any) -> None:
    """Raises DeletionInProgressError if a deletion here is unfinished."""
    if read_record(path) is not None:
        raise DeletionInProgressError(
            f"{path}: a deletion is unfinished; call delete() again with the same arguments first"
        )


def deleted_name(path: Any, wanted: "Collection[str] | None") -> "str | None":
    """The checkpointable that an unfinished deletion removes; None if there is none.

    Raises DeletionInProgressError if it is among the wanted ones. None: all that are there.
    """
    record = read_record(path)
    if record is None:
        return None
    name = str(record["checkpointable_name"])
    if wanted is None:
        _log.warning("%s: %r is left out: its deletion is unfinished", path, name)
    elif name in wanted:
        raise DeletionInProgressError(
            f"{path}: the deletion of {name!r} is unfinished, it cannot be read; call delete() "
            "again to end it"
        )
    return name


def write_durably(file: Any, value: Any, *, new: bool = False) -> None:
    """Writes a file of JSON in one step. new: raises FileExistsError if it is there already."""
    if is_store_url(file):
        content = json.dumps(value, sort_keys=True).encode()
        return create_whole(file, content) if new else write_whole(file, content)
    folder = os.path.dirname(os.fspath(file))
    descriptor, temporary = tempfile.mkstemp(prefix=_TEMPORARY, dir=folder)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as stream:
            with contextlib.suppress(OSError):  # some file systems have no locks
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)  # `cairn clean` leaves it alone
            json.dump(value, stream, sort_keys=True)
            stream.flush()
            os.fsync(stream.fileno())
            mask = os.umask(0)
            os.umask(mask)
            os.chmod(temporary, 0o666 & ~mask)
            if new:
                os.link(temporary, file)
            else:
                os.replace(temporary, file)
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
    sync_folder(folder)


def remove_temporary_files(folder: Any) -> None:
    """Removes the files that a killed deletion was writing."""
    if is_store_url(folder):  # which has whole files only
        return
    for name in os.listdir(folder):
        file = os.path.join(folder, name)
        if name.startswith(_TEMPORARY) and os.path.isfile(file) and not os.path.islink(file):
            os.unlink(file)


def sync_folder(folder: Any) -> None:
    """Waits until the names in a folder are on the disk. Those of a store are."""
    if is_store_url(folder):
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
