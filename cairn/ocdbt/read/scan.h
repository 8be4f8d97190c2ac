// scan.h -- reads all keys or leaves of a B+tree in one pass.
#pragma once

#include <cairn/ocdbt/read/node_reader.h>
#include <cairn/storage/kvstore.h>

#include <string_view>
#include <vector>

namespace cairn::inline v0::ocdbt {

// Returns all keys below `root` that start with `prefix`, sorted, with the sizes of their values.
// Reads only nodes that can contain such keys; the nodes of one level in parallel.
std::vector<ListEntry> list_keys(NodeReader& reader, const NodeExpectation& root,
                                 std::string_view prefix);

// A leaf and its parent's expectation.
struct LeafAt {
  NodeExpectation expected;
  NodePtr leaf;
};
// Returns all leaves below `root` in key order.
std::vector<LeafAt> load_leaves(NodeReader& reader, const NodeExpectation& root);

}  // namespace cairn::inline v0::ocdbt
