// scan.h -- one pass over the keys of a B+tree.
#pragma once

#include <cairn/kvstore.h>
#include <cairn/ocdbt/read/node_reader.h>

#include <string_view>
#include <vector>

namespace cairn::ocdbt {

// All keys below `root` that start with `prefix`, sorted, with the sizes of their values. Reads
// only nodes that can hold some, those of one level in parallel.
std::vector<ListEntry> list_keys(NodeReader& reader, const NodeExpectation& root,
                                 std::string_view prefix);

struct LeafAt {
  NodeExpectation expected;
  NodePtr leaf;
};
// All leaves below `root`, by their keys.
std::vector<LeafAt> load_leaves(NodeReader& reader, const NodeExpectation& root);

}  // namespace cairn::ocdbt
