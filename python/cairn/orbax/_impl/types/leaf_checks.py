"""Questions about leaves and their ParamInfo."""

import logging
from typing import Any

from cairn.orbax._impl.base.processes import process_index
from cairn.orbax._impl.leaves.leaf_args import ArrayRestoreArgs, RestoreArgs
from cairn.orbax._impl.types.empty_values import (
    RESTORE_TYPE_NONE,
    get_empty_value_typestr,
    is_supported_empty_value,
)
from cairn.orbax._impl.types.type_handler import ParamInfo

PLACEHOLDER_TYPESTR = "placeholder"
JAX_ARRAY_TYPE_STR = "jax.Array"

_log = logging.getLogger("cairn.orbax")


class InvalidShardingError(ValueError):
    """A sharding that SingleReplicaArrayHandler cannot use."""


def default_restore_type(args: RestoreArgs) -> Any:
    """The type as which a leaf is restored if the checkpoint records none.

    Raises ValueError for other objects than RestoreArgs.
    """
    if isinstance(args, ArrayRestoreArgs):
        import jax

        return jax.Array
    if isinstance(args, RestoreArgs):
        import numpy as np

        return np.ndarray
    raise ValueError(f"Unsupported restore_args type: {type(args)}")


def get_param_typestr(value: Any, registry: Any, pytree_metadata_options: Any) -> str:
    """The name of a value's type in _METADATA: "None" for a value without a handler."""
    if is_supported_empty_value(value, pytree_metadata_options):
        return get_empty_value_typestr(value, pytree_metadata_options)
    try:
        return str(registry.get(type(value)).typestr())
    except ValueError:
        return RESTORE_TYPE_NONE


def check_array_values(values: Any, infos: Any, raise_error: bool = True) -> None:
    """Raises ValueError, or warns, for arrays without elements, which Orbax does not save."""
    for value, info in zip(values, infos, strict=False):
        if value.size != 0:
            continue
        what = f"ParamInfo: [name={info.name}, value_typestr={info.value_typestr}]"
        if raise_error:
            raise ValueError(f"Cannot save arrays with zero size: {what}")
        _log.warning("Saving array with zero size: %s", what)


def represents_jax_array(param_info: ParamInfo) -> bool:
    """Whether a leaf is a jax.Array. Raises AssertionError if its type is not known."""
    if param_info.value_typestr is None:
        raise AssertionError(f"ParamInfo.value_typestr cannot be None: {param_info}")
    return param_info.value_typestr == JAX_ARRAY_TYPE_STR


def any_jax_array_param_info(param_infos: Any) -> "ParamInfo | None":
    """The first ParamInfo of a tree that is of a jax.Array, or None."""
    import jax

    return next(
        (i for i in jax.tree_util.tree_leaves(param_infos) if represents_jax_array(i)), None
    )


def get_process_index_for_subdir(
    use_ocdbt: bool, override_ocdbt_process_id: "str | None" = None
) -> "int | str | None":
    """The name of this process's database; None without databases."""
    if not use_ocdbt:
        return None
    return override_ocdbt_process_id or process_index()
