// rich_types.h -- the tree in `_METADATA` that keeps apart what the plain one does not: tuples and
// lists, named tuples and dicts.
//
//   dict          {"key": node, ...}
//   list          [node, ...]
//   tuple         {"category": "custom", "clazz": "tuple", "entries": [node, ...]}
//   named tuple   {"category": "namedtuple", "module": "m", "clazz": "State", "entries": [{"key":
//   "mu", "value": node}, ...]} leaf          {"category": "custom", "clazz": "ValueMetadataEntry",
//   "data": {"value_type": "np.ndarray", "skip_deserialize": false}}
//
// Empty nodes are leaves, of the types "None", "Dict", "List", "Tuple", "NamedTuple". It is stored
// as a string inside the JSON.
#pragma once

#include <cairn/tree.h>
#include <cairn/tree/tree_metadata.h>

#include <functional>
#include <string>
#include <string_view>

namespace cairn {

// The text for a tree; `describe` says what each leaf and empty node is.
std::string rich_types_text(
    const Tree& tree, const std::function<LeafMetadata(const KeyPath&, const Tree&)>& describe);

// The reverse: leaves are custom leaves with a LeafMetadata (its path is set), empty nodes are
// such. Throws data_loss.
Tree parse_rich_types(std::string_view json);

}  // namespace cairn
