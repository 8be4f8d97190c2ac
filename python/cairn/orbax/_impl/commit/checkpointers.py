"""Checkpointers of trees."""

from typing import Any

from cairn.orbax._impl.base import options
from cairn.orbax._impl.commit.checkpointer import AsyncCheckpointer, Checkpointer
from cairn.orbax._impl.handlers.pytree_handler import PyTreeCheckpointHandler
from cairn.orbax._impl.handlers.standard_handler import (
    StandardCheckpointHandler,
    StandardRestoreArgs,
    StandardSaveArgs,
)


class PyTreeCheckpointer(Checkpointer):
    """A Checkpointer of a PyTreeCheckpointHandler."""

    def __init__(
        self,
        primary_host: "int | None" = 0,
        use_ocdbt: bool = True,
        use_zarr3: bool = False,
        use_compression: bool = True,
    ) -> None:
        super().__init__(
            PyTreeCheckpointHandler(
                use_ocdbt=use_ocdbt,
                use_zarr3=use_zarr3,
                use_compression=use_compression,
                multiprocessing_options=options.MultiprocessingOptions(primary_host=primary_host),
            )
        )


class StandardCheckpointer(AsyncCheckpointer):
    """Saves trees of arrays and numbers in the background."""

    def __init__(
        self,
        *,
        async_options: "options.AsyncOptions | None" = None,
        multiprocessing_options: "options.MultiprocessingOptions | None" = None,
        file_options: "options.FileOptions | None" = None,
        atomicity_options: "options.AtomicityOptions | None" = None,
        checkpoint_metadata_store: Any = None,
        temporary_path_class: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            StandardCheckpointHandler(**kwargs),
            async_options=async_options,
            multiprocessing_options=multiprocessing_options,
            file_options=file_options,
            atomicity_options=atomicity_options,
            checkpoint_metadata_store=checkpoint_metadata_store,
            temporary_path_class=temporary_path_class,
        )

    def save(  # type: ignore[override]
        self,
        directory: Any,
        state: Any,
        *,
        save_args: Any = None,
        force: bool = False,
        custom_metadata: "dict[str, Any] | None" = None,
    ) -> None:
        """Starts a save of a tree. wait_until_finished() waits for it."""
        super().save(
            directory,
            args=StandardSaveArgs(state, save_args),
            force=force,
            custom_metadata=custom_metadata,
        )

    def restore(self, directory: Any, target: Any = None, *, strict: bool = True) -> Any:
        """Restores a tree: as stored, or like the target. strict as in StandardRestore."""
        return super().restore(directory, args=StandardRestoreArgs(target, strict=strict))
