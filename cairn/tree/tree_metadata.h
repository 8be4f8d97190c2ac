// tree_metadata.h -- `_METADATA`: the structure of a pytree and the type of each leaf, as Orbax
// writes it.
//
//   {"tree_metadata": {"('a', '0')": {"key_metadata": [{"key": "a", "key_type": 2}, {"key": "0",
//   "key_type": 1}],
//                                     "value_metadata": {"value_type": "jax.Array",
//                                     "skip_deserialize": false,
//                                                        "write_shape": [4]}}, ...},
//    "use_ocdbt": true, "use_zarr3": false, "store_array_data_equal_to_fill_value": true,
//    "custom_metadata": null, "value_metadata_tree": "..."}
//
// The names of the entries (Python tuples as text) are not needed for reading: key_metadata says
// the same. Unknown members are ignored, as Orbax does; missing ones take the values below.
#pragma once

#include <cairn/base/json_scan.h>
#include <cairn/tree.h>
#include <cairn/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cairn {

struct LeafMetadata {
  KeyPath path;
  // "jax.Array", "np.ndarray", "scalar", "string", "placeholder", "None", "Dict", ...
  std::string value_type;
  bool skip_deserialize = false;     // an empty node: nothing is stored
  std::optional<Shape> write_shape;  // of the piece that one replica writes; jax.Array only
  bool operator==(const LeafMetadata&) const = default;
};

struct TreeMetadata {
  // in the file's order, which is the tree's; no path is a prefix of another
  std::vector<LeafMetadata> leaves;
  // absent before Orbax 0.11.31: whether manifest.ocdbt exists decides
  std::optional<bool> use_ocdbt;
  bool use_zarr3 = false;
  // true: a missing chunk is damage, not fill value
  bool store_array_data_equal_to_fill_value = false;
  std::string custom_metadata;  // JSON text; "" if absent or null
  // value_metadata_tree (rich_types.h); "" if absent
  std::string rich_types;
};

// Throws data_loss with the byte offset for text that is no such metadata.
TreeMetadata parse_tree_metadata(std::string_view json);

// The text as Orbax writes it, leaves in their order. Throws invalid_argument for keys that are not
// UTF-8.
std::string tree_metadata_text(const TreeMetadata& metadata);

// A JSON list of extents, in this file and in array_metadatas. Fails for a negative one, and for
// more than 64 dimensions.
Shape scan_shape(JsonScanner& in);

// Whether `value_type` is that of a node without children.
bool is_empty_node_type(std::string_view value_type);

}  // namespace cairn
