"""Leaves of a tree that handlers of the user's own save and restore."""

import asyncio
import os
from typing import Any

from cairn import _cairn
from cairn.orbax._impl.base import processes
from cairn.orbax._impl.leaves.leaf_args import SaveArgs
from cairn.orbax._impl.paths.checkpoint_paths import as_path
from cairn.orbax._impl.trees import pytrees
from cairn.orbax._impl.trees.pytrees import Path
from cairn.orbax._impl.types.leaf_options import Options, native_options
from cairn.orbax._impl.types.standard_types import saves_natively
from cairn.orbax._impl.types.type_handler import ParamInfo, TypeHandler


def tensorstore_context(handler: TypeHandler, use_ocdbt: bool) -> Any:
    """What a subclass of a handler of Orbax needs to call that one; None for other handlers."""
    if not any(base.__module__.startswith("orbax.") for base in type(handler).__mro__):
        return None
    from orbax.checkpoint._src.serialization import tensorstore_utils

    return tensorstore_utils.get_ts_context(use_ocdbt=use_ocdbt)


class OwnLeaves:
    """The leaves of a tree that is saved which have handlers of the user's own."""

    def __init__(self, tree: Any, registry: Any) -> None:
        self._pairs = pytrees.flatten_with_keys(tree)
        by_type: dict[Any, TypeHandler] = {}
        for keys, leaf in self._pairs[0]:
            if type(leaf) not in by_type and not pytrees.is_empty(leaf):
                try:
                    by_type[type(leaf)] = registry.get(type(leaf))
                except ValueError as error:
                    path = pytrees.dotted(pytrees.path_of(keys))
                    raise ValueError(
                        f"{path}: TypeHandler lookup failed for: type={type(leaf)}: {error}"
                    ) from error
        self._leaves = {
            pytrees.path_of(keys): (keys, leaf, handler)
            for keys, leaf in self._pairs[0]
            if (handler := by_type.get(type(leaf))) is not None and not saves_natively(handler)
        }
        self._native = [handler for handler in by_type.values() if saves_natively(handler)]

    def __bool__(self) -> bool:
        return bool(self._leaves)

    def native_options(self) -> "Options | None":
        """The options of the native part for the other leaves; None: the default."""
        return native_options(self._native)

    def with_types(self) -> Any:
        """The tree with the names of their types in their place."""
        leaves, treedef = self._pairs
        found = (self._leaves.get(pytrees.path_of(keys)) for keys, _ in leaves)
        return treedef.unflatten(
            [
                leaf if own is None else _cairn.LeafType(own[2].typestr())
                for own, (_, leaf) in zip(found, leaves, strict=True)
            ]
        )

    async def serialize(
        self, directory: Any, save_args: "dict[Path, Any]", options: "dict[str, Any]"
    ) -> "list[Any]":
        """Calls the handlers, each once, and returns their futures."""
        directory = as_path(directory)
        groups: dict[int, tuple[TypeHandler, list[Any], list[Any], list[Any]]] = {}
        handlers = {id(handler): handler for _, _, handler in self._leaves.values()}
        contexts = {
            key: tensorstore_context(handler, options["is_ocdbt_checkpoint"])
            for key, handler in handlers.items()
        }
        of_orbax = _directory_of_orbax(directory, contexts)
        for path, (keys, leaf, handler) in self._leaves.items():
            _, values, infos, args = groups.setdefault(id(handler), (handler, [], [], []))
            values.append(leaf)
            infos.append(
                ParamInfo(
                    name=".".join(path),
                    parent_dir=directory if contexts[id(handler)] is None else of_orbax,
                    keypath=keys,
                    skip_deserialize=False,
                    value_typestr=handler.typestr(),
                    ts_context=contexts[id(handler)],
                    **options,
                )
            )
            args.append(save_args.get(path) or SaveArgs())
        futures = await asyncio.gather(
            *(
                handler.serialize(values, infos, args)
                for handler, values, infos, args in groups.values()
            )
        )
        return [future for some in futures for future in some or []]


def _directory_of_orbax(directory: Any, contexts: "dict[int, Any]") -> Any:
    """Where subclasses of Orbax's handlers write: several processes have a folder for that."""
    if all(context is None for context in contexts.values()):
        return directory
    processes.require_step("type handlers that extend those of Orbax")
    job = processes.job()
    if job is None:
        return directory
    return as_path(_cairn.make_shared_leaf_folder(os.fspath(directory), job.unique_id()))
