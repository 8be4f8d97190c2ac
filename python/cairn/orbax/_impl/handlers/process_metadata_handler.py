"""A handler of an item that says which process has which devices."""

import dataclasses
from collections.abc import Callable
from typing import Any

from cairn.orbax._impl.base import multihost, options
from cairn.orbax._impl.base.futures import NoopFuture
from cairn.orbax._impl.handlers.args import CheckpointArgs, register_with_handler
from cairn.orbax._impl.handlers.handler import NativeHandler
from cairn.orbax._impl.handlers.restarts import read_process_metadata, save_process_metadata

_ORBAX = "orbax.checkpoint.experimental.emergency.multi_tier_checkpointing"


class ProcessMetadataCheckpointHandler(NativeHandler):
    """Saves the numbers of the devices of each process and of a mesh. Each process writes.

    distributed_to_device_ids_fn: returns, by process, the numbers of its devices; None:
    multihost.distributed_to_device_ids.
    """

    _typestr = f"{_ORBAX}.process_metadata_checkpoint_handler.ProcessMetadataCheckpointHandler"

    def __init__(
        self,
        multiprocessing_options: "options.MultiprocessingOptions | None" = None,
        distributed_to_device_ids_fn: "Callable[[], list[list[int]]] | None" = None,
    ) -> None:
        del multiprocessing_options  # every process writes to its own disk
        self._devices_of_processes = (
            distributed_to_device_ids_fn or multihost.distributed_to_device_ids
        )

    async def async_save(self, directory: Any, args: "ProcessMetadataSaveArgs") -> "list[Any]":
        """Writes the numbers."""
        await save_process_metadata(directory, args.global_mesh, self._devices_of_processes())
        return [NoopFuture()]

    def restore(
        self, directory: Any, args: "ProcessMetadataRestoreArgs | None" = None
    ) -> "tuple[list[list[int]], list[int]]":
        """By process, the numbers of its devices; and those of the devices of the mesh.

        Raises FileNotFoundError if the directory is missing, and ValueError if its save has not
        ended.
        """
        return read_process_metadata(directory)


@register_with_handler(ProcessMetadataCheckpointHandler, for_save=True)
@dataclasses.dataclass
class ProcessMetadataSaveArgs(CheckpointArgs):
    """The mesh of all devices."""

    global_mesh: Any


@register_with_handler(ProcessMetadataCheckpointHandler, for_restore=True)
@dataclasses.dataclass
class ProcessMetadataRestoreArgs(CheckpointArgs):
    """There is nothing to choose."""
