"""Paths of calls, as the context wants them."""

import os
from typing import Any

from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.paths.store_path import is_store_url
from cairn.orbax._impl.v1.context import Context


def given_path(context: Context, path: Any) -> Any:
    """A path of the context's class; of a store, a StorePath."""
    if not path:
        raise ValueError("Path must not be None or empty.")
    found = as_path(path)
    return found if is_store_url(found) else context.file.path_class(os.fspath(found))
