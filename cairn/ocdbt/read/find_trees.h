// find_trees.h -- finds the trees of a database whose manifest is lost, by looking for their nodes
// in the data files.
#pragma once

#include <cairn/storage/kvstore.h>

#include <cstddef>
#include <string>
#include <vector>

namespace cairn::inline v0::ocdbt {

// A tree that was found.
struct FoundTree {
  StorePtr store;     // its keys
  std::string place;  // of its root, for messages: "d/12ab, byte 20"
};
// Reads all data files of `base` and returns the trees in them, the largest first. A node that no
// other node refers to counts as a root. So a tree whose upper nodes are lost, too, appears as
// several ones, whose keys lack their beginnings: use only keys that are known. Never throws
// because of damage.
std::vector<FoundTree> find_trees(const StorePtr& base, std::size_t threads);

}  // namespace cairn::inline v0::ocdbt
