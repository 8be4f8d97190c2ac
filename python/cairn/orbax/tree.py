"""Trees as plain containers, and as flat dicts."""

from cairn.orbax._impl.base.missing import hints as _hints
from cairn.orbax._impl.leaves.arrays import to_shape_dtype_struct
from cairn.orbax._impl.trees.difference import tree_difference
from cairn.orbax._impl.trees.merge import merge_trees
from cairn.orbax._impl.trees.plain import (
    JsonType,
    PyTree,
    PyTreeKey,
    PyTreeOf,
    PyTreePath,
    deserialize_tree,
    from_flat_dict,
    from_flattened_with_keypath,
    get_key_name,
    get_param_names,
    is_dict_key,
    is_empty_node,
    is_flat_dict,
    is_sequence_key,
    serialize_tree,
    str_keypath,
    to_flat_dict,
    tuple_path_from_keypath,
)
from cairn.orbax._impl.trees.pytrees import is_empty_or_leaf
from cairn.orbax._impl.trees.trim import tree_trim

__getattr__ = _hints(__name__)

__all__ = [
    "JsonType",
    "PyTree",
    "PyTreeKey",
    "PyTreeOf",
    "PyTreePath",
    "deserialize_tree",
    "from_flat_dict",
    "from_flattened_with_keypath",
    "get_key_name",
    "get_param_names",
    "is_dict_key",
    "is_empty_node",
    "is_empty_or_leaf",
    "is_flat_dict",
    "is_sequence_key",
    "merge_trees",
    "serialize_tree",
    "str_keypath",
    "to_flat_dict",
    "to_shape_dtype_struct",
    "tree_difference",
    "tree_trim",
    "tuple_path_from_keypath",
]
