// rich_types.h -- the tree in `_METADATA` that distinguishes what the plain one does not: tuples
// from lists, and named tuples from dicts.
//
//   dict          {"key": node, ...}
//   list          [node, ...]
//   tuple         {"category": "custom", "clazz": "tuple", "entries": [node, ...]}
//   named tuple   {"category": "namedtuple", "module": "m", "clazz": "State",
//                  "entries": [{"key": "mu", "value": node}, ...]}
//   leaf          {"category": "custom", "clazz": "ValueMetadataEntry",
//                  "data": {"value_type": "np.ndarray", "skip_deserialize": false}}
//
// Empty nodes are leaves of the types "None", "Dict", "List", "Tuple", "NamedTuple". The tree is
// stored as a string inside the JSON.
#pragma once

#include <cairn/tree.h>
#include <cairn/tree/tree_metadata.h>

#include <functional>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// Formats a tree; `describe` returns the metadata of each leaf and empty node.
std::string rich_types_text(
    const Tree& tree, const std::function<LeafMetadata(const KeyPath&, const Tree&)>& describe);

// Parses it. Leaves become custom leaves with a LeafMetadata whose path is set; empty nodes stay
// empty nodes. Throws data_loss for malformed text.
Tree parse_rich_types(std::string_view json);

}  // namespace cairn::inline v0
