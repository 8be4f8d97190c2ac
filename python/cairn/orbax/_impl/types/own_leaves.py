"""Leaves of a tree that handlers of the user's own save and restore."""

import asyncio
import json
import os
import threading
from typing import Any

from cairn.orbax._impl.base import processes
from cairn.orbax._impl.leaves.leaf_args import SaveArgs
from cairn.orbax._impl.paths.checkpoint_paths import TREE_METADATA_FILE, as_path
from cairn.orbax._impl.paths.text_files import write_whole
from cairn.orbax._impl.trees import pytrees
from cairn.orbax._impl.trees.pytrees import Path
from cairn.orbax._impl.types.leaf_options import Options, native_options
from cairn.orbax._impl.types.standard_types import saves_natively
from cairn.orbax._impl.types.type_handler import ParamInfo, TypeHandler
from cairn.orbax._impl.types.writes import shared_folder


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

    def without(self) -> Any:
        """The tree with placeholders in their place."""
        leaves, treedef = self._pairs
        return treedef.unflatten(
            [... if pytrees.path_of(keys) in self._leaves else leaf for keys, leaf in leaves]
        )

    def typestrs(self) -> "dict[Path, str]":
        """The names of the types."""
        return {path: handler.typestr() for path, (_, _, handler) in self._leaves.items()}

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
    return directory if job is None else as_path(shared_folder(directory, job))


class NamingFuture:
    """Ends when the tree is written, with names of types that the native part does not know."""

    def __init__(self, written: Any, directory: Any, typestrs: "dict[Path, str]") -> None:
        self._written = written
        self._file = os.path.join(os.fspath(directory), TREE_METADATA_FILE)
        self._typestrs = typestrs
        self._lock = threading.Lock()
        self._is_named = False

    def cancel(self) -> None:
        """Asks the write to stop soon."""
        self._written.cancel()

    def result(self, timeout: "float | None" = None) -> None:
        """Waits until the tree is written."""
        self._written.result(timeout)
        with self._lock:
            if not self._is_named and processes.process_index() == 0:  # which writes the file
                _name_types(self._file, self._typestrs)
                self._is_named = True


def _name_types(file: str, typestrs: "dict[Path, str]") -> None:
    """Replaces "placeholder" by the names of the types in the file of the tree."""
    with open(file, encoding="utf-8") as opened:
        described = json.load(opened)
    names = []
    for entry in described["tree_metadata"].values():
        value = entry["value_metadata"]
        if value["value_type"] == "placeholder":
            path = tuple(str(part["key"]) for part in entry["key_metadata"])
            names.append(typestrs.get(path, "placeholder"))
            _name(value, names[-1])
    if "value_metadata_tree" in described:  # the same leaves, in the same order
        rich = json.loads(described["value_metadata_tree"])
        _name_in_order(rich, iter(names))
        described["value_metadata_tree"] = json.dumps(rich)
    write_whole(file, json.dumps(described).encode())


def _name(value: "dict[str, Any]", typestr: str) -> None:
    value["value_type"] = typestr
    value["skip_deserialize"] = value["skip_deserialize"] or typestr == "None"


def _name_in_order(node: Any, names: Any) -> None:
    if isinstance(node, list):
        for child in node:
            _name_in_order(child, names)
    elif isinstance(node, dict):
        if node.get("clazz") == "ValueMetadataEntry":
            if node["data"]["value_type"] == "placeholder":
                _name(node["data"], next(names))
            return
        for child in node.values():
            _name_in_order(child, names)
