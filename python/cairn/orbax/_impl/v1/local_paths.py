"""Paths of calls, as the context wants them."""

import os
from typing import Any

from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.v1.context import Context


def local_path(context: Context, path: Any) -> Any:
    """A path of the context's class. Raises NotImplementedError for an object store."""
    if not path:
        raise ValueError("Path must not be None or empty.")
    return context.file.path_class(os.fspath(as_path(path)))
