"""The names that methods of Checkpointer had before."""

import warnings
from typing import Any


def _older_name(name: str, new: str) -> Any:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        warnings.warn(
            f"{name} is deprecated. Use `{new}` instead.", DeprecationWarning, stacklevel=2
        )
        return getattr(self, new)(*args, **kwargs)

    method.__name__ = name
    method.__doc__ = f"The older name of {new}()."
    return method


class OlderNames:
    """Methods that warn and call those of today."""

    save_pytree = _older_name("save_pytree", "save")
    save_pytree_async = _older_name("save_pytree_async", "save_async")
    load_pytree = _older_name("load_pytree", "load")
    load_pytree_async = _older_name("load_pytree_async", "load_async")
    pytree_metadata = _older_name("pytree_metadata", "metadata")
