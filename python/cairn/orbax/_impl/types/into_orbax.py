"""Makes the real package save and restore its arrays through Cairn."""

import functools
import re
from typing import Any

from cairn.orbax._impl.stored.stored_tree import keeps_array_metadata
from cairn.orbax._impl.types.reads import cairn_args, read_leaves
from cairn.orbax._impl.types.standard_types import ArrayHandler
from cairn.orbax._impl.types.writes import check_is_local, write_leaves

_OLDEST = (0, 11, 40)  # of Orbax; docs/versions.md


def _through_cairn(base: Any, kind: str) -> Any:
    """A class of handlers like `base`, an exact class of Orbax, that save through Cairn."""
    from orbax.checkpoint._src.serialization import type_handlers

    class Handler(base):  # type: ignore[misc]
        async def serialize(self, values: Any, infos: Any, args: Any = None) -> Any:
            args = args or [type_handlers.SaveArgs()] * len(values)
            if kind == "array":
                type_handlers.check_array_values(values, infos)
            try:
                check_is_local(infos)  # the real package has its own way to stores
                return await write_leaves(values, infos, args, self)
            except (NotImplementedError, TypeError):  # what Orbax stores and Cairn does not
                return await super().serialize(values, infos, args)

        async def deserialize(self, infos: Any, args: Any = None) -> Any:
            if args is None:
                args = [None] * len(infos)
                if kind == "array":  # without arguments, an error that Orbax words
                    return await super().deserialize(infos)
            try:
                check_is_local(infos)
                chosen = [cairn_args(kind, one) for one in args]
                return await read_leaves(infos, chosen, keeps_array_metadata(self))
            except NotImplementedError:  # a layout of a device, a directory that is not local
                return await super().deserialize(infos, args)

    Handler.__name__ = Handler.__qualname__ = f"Cairn{base.__name__}"
    return Handler


def _has_options(handler: Any) -> bool:
    """Whether a handler was made with arguments that only Orbax's own code knows."""
    ours = {"_array_metadata_store", "_ext_metadata", "_callback", "_deepcopy_host_arrays"}
    default = vars(type(handler)())
    return any(value != default[name] for name, value in vars(handler).items() if name not in ours)


def _check_version(found: str) -> None:
    """Raises ImportError for an Orbax whose private modules are others."""
    if tuple(int(part) for part in re.findall(r"\d+", found)[:3]) < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        raise ImportError(
            f"install_into_orbax: needs orbax-checkpoint {oldest} or later, found {found}; "
            "cairn.orbax and cairn.save need no Orbax"
        )


class Installation:
    """The changes of install_into_orbax(). A context manager; uninstall() reverts them."""

    def __init__(self) -> None:
        import jax
        import numpy as np
        import orbax.checkpoint

        _check_version(orbax.checkpoint.__version__)
        from orbax.checkpoint._src.serialization import type_handler_registry as registries
        from orbax.checkpoint._src.serialization import type_handlers

        if type_handlers.ArrayHandler is ArrayHandler:
            raise RuntimeError(
                "install_into_orbax: cairn.orbax is in the place of orbax.checkpoint already"
            )
        self._registry: Any = registries.GLOBAL_TYPE_HANDLER_REGISTRY
        self._replaced: list[tuple[Any, Any]] = []
        if jax.process_count() > 1:
            raise NotImplementedError(
                "install_into_orbax: works in one process; cairn.orbax and cairn.save have their "
                "own ways for several"
            )
        bases = {
            type_handlers.ArrayHandler: "array",
            type_handlers.NumpyHandler: "numpy",
            type_handlers.ScalarHandler: "scalar",
        }
        made: Any = functools.cache(self._made)
        for kind in (int, float, np.number, np.ndarray, jax.Array):
            handler = self._registry.get(kind)
            # Handlers of the user's own, and those with options, stay as they are.
            if type(handler) in bases and not _has_options(handler):
                self._replaced.append((kind, handler))
                like = handler if kind is jax.Array else None
                self._add(kind, made(type(handler), bases[type(handler)], like))

    @staticmethod
    def _made(base: Any, kind: str, like: Any) -> Any:
        handler = _through_cairn(base, kind)()
        if like is not None:
            handler.__dict__.update(vars(like))  # its store of array metadata
        return handler

    def _add(self, kind: Any, handler: Any) -> None:
        self._registry.add(kind, handler, override=True, ignore_warnings=True)

    def uninstall(self) -> None:
        """Gives Orbax its own handlers back. Saves that are running go on."""
        global _installed
        for kind, handler in self._replaced:
            self._add(kind, handler)
        self._replaced = []
        _installed = None

    def __enter__(self) -> "Installation":
        return self

    def __exit__(self, *exception: object) -> None:
        self.uninstall()


_installed: "Installation | None" = None


def install_into_orbax() -> Installation:
    """Makes orbax.checkpoint save and restore arrays and numbers through Cairn in this process.

    Programs stay as they are. Orbax still writes the tree, its strings and leaves of other types,
    merges databases and completes checkpoints; what is saved restores in an Orbax without Cairn.
    Changes the handlers of orbax.checkpoint's registry for int, float, np.number, np.ndarray and
    jax.Array, unless they are the user's own. Those of the API v1 are not changed. Use it before
    checkpointers are made, as a context manager or until uninstall_from_orbax(). A second call
    changes nothing.

    Raises ImportError if Orbax is not installed or is older than 0.11.40, NotImplementedError in a
    run of several processes.
    """
    global _installed
    if _installed is None:
        _installed = Installation()
    return _installed


def uninstall_from_orbax() -> None:
    """Gives orbax.checkpoint its own handlers back; does nothing if they are there."""
    if _installed is not None:
        _installed.uninstall()
