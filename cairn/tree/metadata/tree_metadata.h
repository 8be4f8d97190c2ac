// tree_metadata.h -- `_METADATA`: the structure of a pytree and the type of each leaf, as Orbax
// writes it.
//
//   {"tree_metadata": {
//      "('a', '0')": {
//        "key_metadata": [{"key": "a", "key_type": 2}, {"key": "0", "key_type": 1}],
//        "value_metadata": {"value_type": "jax.Array", "skip_deserialize": false,
//                           "write_shape": [4]}},
//      ...},
//    "use_ocdbt": true, "use_zarr3": false, "store_array_data_equal_to_fill_value": true,
//    "custom_metadata": null, "value_metadata_tree": "...", "cairn_key_types": [...]}
//
// The names of the entries (Python tuples as text) repeat key_metadata. Like Orbax, the reader
// takes the keys from key_metadata. It uses the names only to notice damaged keys, and ignores
// names that are not tuples, and unknown members. Missing members take the values below.
#pragma once

#include <cairn/base/json/scan.h>
#include <cairn/tree.h>
#include <cairn/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0 {

// One leaf or empty node.
struct LeafMetadata {
  KeyPath path;
  // "jax.Array", "np.ndarray", "scalar", "string", "placeholder", "None", "Dict", ...
  std::string value_type;
  bool skip_deserialize = false;     // an empty node: it has no stored bytes
  std::optional<Shape> write_shape;  // shape of the piece that one replica writes; jax.Array only
  bool operator==(const LeafMetadata&) const = default;
};

// The decoded file.
struct TreeMetadata {
  // in the file's order, which is that of the tree; no path is a prefix of another
  std::vector<LeafMetadata> leaves;
  // absent before Orbax 0.11.31: then the presence of manifest.ocdbt decides
  std::optional<bool> use_ocdbt;
  bool use_zarr3 = false;
  // true: a missing chunk is damage; false: it holds the fill value
  bool store_array_data_equal_to_fill_value = false;
  std::string custom_metadata;  // JSON text; "" if absent or null
  // value_metadata_tree as JSON text, a string in quotes (rich_types.h); "" if absent. It may be
  // most of the file, and few readers need it.
  std::string rich_types;
  // cairn_key_types as JSON text (key_types.h); "" if absent. Orbax does not know this member.
  std::string key_types;
};

// Receives the leaves of a file before the rest of the file is parsed.
using TakeLeaves = std::function<void(std::vector<LeafMetadata> leaves)>;

// Parses the file. Throws data_loss with the byte offset for malformed metadata, and with both
// names if an entry would replace another although their names are those of two leaves. With
// take_leaves, the leaves are passed to it and the result has none. What it does with them on
// another thread runs beside the parsing of value_metadata_tree. A file that repeats the leaves
// calls it again.
TreeMetadata parse_tree_metadata(std::string_view json, const TakeLeaves& take_leaves = {});

// An entry whose name is not the tuple of its keys.
struct MisnamedLeaf {
  std::string name;  // the first 200 bytes
  KeyPath path;      // the keys
};

// Finds these entries, also among those that parse_tree_metadata drops. Throws data_loss for
// malformed metadata.
std::vector<MisnamedLeaf> find_misnamed_leaves(std::string_view json);

// Formats the file as Orbax does, with the leaves in their order. Throws invalid_argument for keys
// that are not UTF-8.
std::string tree_metadata_text(const TreeMetadata& metadata);

// Reads a JSON list of extents, which this file and array_metadatas have. Fails for a negative
// extent, and for more than 64 dimensions.
Shape scan_shape(JsonScanner& in);

// Formats a string as Python's json.dumps does, in quotes.
std::string python_quoted(std::string text);

// True if neither JSON nor Python's repr escapes a character of the text. Almost every key is
// plain, and a tree may have a million of them.
bool is_plain_text(std::string_view text);

// Whether `value_type` is the type of a node without children.
bool is_empty_node_type(std::string_view value_type);

}  // namespace cairn::inline v0
