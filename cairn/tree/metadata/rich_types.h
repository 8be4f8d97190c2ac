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
// stored as a string inside the JSON, so its quotes are escaped.
#pragma once

#include <cairn/tree.h>
#include <cairn/tree/metadata/tree_metadata.h>

#include <functional>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// Formats a tree as the JSON text of that string, in quotes. `describe` returns the metadata of
// each leaf and empty node, in the order of flatten() with sorted dicts; `leaves` is their number
// if it is known.
std::string rich_types_text(
    const Tree& tree,
    const std::function<const LeafMetadata&(const KeyPath&, const Tree&)>& describe,
    std::size_t leaves = 0);

// Parses that text. Leaves become custom leaves with a LeafMetadata whose path is set; empty nodes
// stay empty nodes. Throws data_loss for malformed text.
Tree parse_rich_types(std::string_view json_string);

// Whether the record may say more than a plain tree of `leaves` leaves and empty nodes: false if it
// has neither a tuple nor a named tuple, and as many leaves. `json_string` is as above.
bool may_say_more(std::string_view json_string, std::size_t leaves);

}  // namespace cairn::inline v0
