"""Restores and metadata of trees whose leaves may have handlers of the user's own."""

import asyncio
from typing import Any

from cairn.orbax._impl.base import asyncs
from cairn.orbax._impl.leaves.leaf_args import DEFAULT_RESTORE_ARGS, RestoreArgs
from cairn.orbax._impl.leaves.leaf_reads import is_msgpack_value
from cairn.orbax._impl.leaves.tree_metadata import TreeMetadata, leaf_metadata, write_shapes
from cairn.orbax._impl.stored.stored_tree import StoredTree, fill
from cairn.orbax._impl.types.byte_limits import get_byte_limiter
from cairn.orbax._impl.types.own_leaves import tensorstore_context
from cairn.orbax._impl.types.standard_types import is_native
from cairn.orbax._impl.types.type_handler import ParamInfo, TypeHandler


def own_handler(stored: StoredTree, index: int, restore_type: Any) -> Any:
    """The user's own handler of a leaf, or None."""
    typestr = stored.types[index][1]
    kind = restore_type or typestr
    if stored.registry is None or stored.is_empty(index) or not kind:
        return None
    if restore_type is None and is_msgpack_value(typestr):
        return None
    try:
        handler = stored.registry.get(kind)
        return None if is_native(handler) else handler
    except ValueError as error:
        name = stored.infos[index].name
        raise ValueError(f"{name}: TypeHandler lookup failed: {error}") from error


def restore_own(
    stored: StoredTree, wanted: "dict[int, RestoreArgs]"
) -> "tuple[dict[int, RestoreArgs], dict[int, Any]]":
    """The leaves that are left for the native part, and the values of the user's own types."""
    if _are_all_native(stored, wanted):
        return wanted, {}
    groups: dict[int, tuple[TypeHandler, list[int]]] = {}
    left: dict[int, RestoreArgs] = {}
    for index, args in wanted.items():
        handler = own_handler(stored, index, args.restore_type)
        if handler is None:
            left[index] = args
        else:
            groups.setdefault(id(handler), (handler, []))[1].append(index)
    values: dict[int, Any] = {}
    if groups:
        restored = asyncs.run(_deserialize(stored, list(groups.values()), wanted))
        for (_, indices), some in zip(groups.values(), restored, strict=True):
            values.update(zip(indices, some, strict=True))
    return left, values


def _are_all_native(stored: StoredTree, wanted: "dict[int, RestoreArgs]") -> bool:
    """Whether no leaf has a handler of the user's own. Looks once for each type of leaf."""
    types = stored.types
    first: dict[Any, int] = {}
    try:
        for index, args in wanted.items():
            first.setdefault((types[index], args.restore_type), index)
    except TypeError:  # an object that is not a type, and has no hash
        return False
    return all(own_handler(stored, index, kind) is None for (_, kind), index in first.items())


async def _deserialize(stored: StoredTree, groups: "list[Any]", wanted: "dict[int, Any]") -> Any:
    limiter = get_byte_limiter(stored.memory)
    return await asyncio.gather(
        *(
            handler.deserialize(
                [
                    info.replace(byte_limiter=limiter)
                    for info in param_infos(stored, indices, handler)
                ],
                [_own_args(wanted[index]) for index in indices],
            )
            for handler, indices in groups
        )
    )


def _own_args(args: RestoreArgs) -> RestoreArgs:
    """The arguments for a handler of the user's own, which may change them."""
    return RestoreArgs() if args is DEFAULT_RESTORE_ARGS else args


def param_infos(
    stored: StoredTree, indices: "list[int]", handler: TypeHandler
) -> "list[ParamInfo]":
    """What a handler learns of its stored leaves."""
    context = tensorstore_context(handler, stored.has_database)
    return [_param_info(stored, index, context) for index in indices]


def _param_info(stored: StoredTree, index: int, context: Any) -> ParamInfo:
    import jax

    info = stored.infos[index]
    keys = tuple(
        jax.tree_util.SequenceKey(key) if isinstance(key, int) else jax.tree_util.DictKey(key)
        for key in info.path
    )
    return stored_param_info(
        stored,
        info.name,
        keypath=keys,
        skip_deserialize=False,
        ts_context=context,
        value_typestr=info.typestr,
    )


def stored_param_info(stored: StoredTree, name: str, **facts: Any) -> ParamInfo:
    """The ParamInfo of a stored leaf: what holds for all leaves of the tree, and these facts."""
    return ParamInfo(
        name=name,
        parent_dir=stored.directory,
        is_ocdbt_checkpoint=stored.has_database,
        use_zarr3=stored.uses_zarr3,
        **facts,
    )


def own_metadata(stored: StoredTree) -> "dict[int, Any]":
    """The metadata of the leaves of the user's own types."""
    groups: dict[int, tuple[TypeHandler, list[int]]] = {}
    if _are_all_native(stored, dict.fromkeys(range(len(stored.types)), DEFAULT_RESTORE_ARGS)):
        return {}
    for index in range(len(stored.types)):
        handler = own_handler(stored, index, None)
        if handler is not None:
            groups.setdefault(id(handler), (handler, []))[1].append(index)
    found: dict[int, Any] = {}
    for handler, indices in groups.values():
        infos = param_infos(stored, indices, handler)
        found.update(zip(indices, asyncs.run(_metadata(handler, infos)), strict=True))
    return found


async def _metadata(handler: TypeHandler, infos: "list[ParamInfo]") -> Any:
    return await handler.metadata(infos)


def tree_metadata_of(stored: StoredTree) -> TreeMetadata:
    """The metadata of a stored tree."""
    shapes = write_shapes(stored)
    values: dict[int, Any] = own_metadata(stored)
    for path, index in stored.by_path.items():
        if index not in values:
            values[index] = leaf_metadata(stored, index, None, shapes.get(path))
    return TreeMetadata(
        tree=fill(stored.structure(), values),
        custom_metadata=stored.tree_metadata().get("custom_metadata"),
        use_zarr3=stored.uses_zarr3,
    )
