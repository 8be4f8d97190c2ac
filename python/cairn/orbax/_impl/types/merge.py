"""Merges the databases of several processes."""

import asyncio
import os
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.base.monitoring import warn_of_nothing_to_merge
from cairn.orbax._impl.stored.native_reads import DamagedDataError


async def merge_ocdbt_per_process_files(
    directory: Any,
    ts_context: Any,
    use_zarr3: bool,
    enable_validation: bool = True,
    *,
    store_ocdbt_metadata_and_values_separately: bool = False,
) -> None:
    """Merges the databases ocdbt.process_* of a directory into its own, by reference.

    The databases stay: the merged one refers to their files. Without any, nothing happens but a
    warning. A save in several processes does this itself.

    Args:
      directory: with the databases.
      ts_context: not used; there is no TensorStore here.
      use_zarr3: whether the arrays are Zarr v3, which are not validated, as in Orbax.
      enable_validation: whether an array without chunks, or chunks without an array, raise
        ValueError. Then there is no merged database.
      store_ocdbt_metadata_and_values_separately: nodes of the database and values apart.
    """
    del ts_context
    try:
        merged = await asyncio.to_thread(
            _cairn.merge_ocdbt_per_process_files,
            os.fspath(directory),
            bool(use_zarr3),
            bool(enable_validation),
            bool(store_ocdbt_metadata_and_values_separately),
        )
    except _cairn.CorruptionError as error:
        raise DamagedDataError(str(error)) from error
    if merged == 0:
        warn_of_nothing_to_merge(directory)
