// planned_tree.h -- the leaves of a conversion as a tree, for the formats that hold trees.
#pragma once

#include <cairn/tools/convert/planned_source.h>
#include <cairn/tree.h>

namespace cairn::inline v0 {

// What becomes of some leaves.
struct PlannedTreeOptions {
  bool timestamps = false;  // those of msgpack become MsgpackTimestamp; else they are arrays
  // Bytes objects and lists of many numbers are read; else they are SourceLeaf::As::kBytes and
  // arrays.
  bool values_in_memory = false;
  bool shares_ties = false;  // leaves that Checkpoint::ties() names together are one source
};
// The tree. An array is a SourceLeaf, whose index is the number of the leaf in the plan, or of the
// leaf that it is tied to; numbers, texts and empty containers are values. It has the source's
// containers, without those that have no children left; leaves that are renamed or nested have
// dicts instead.
Tree planned_tree(const PlannedSource& from, const PlannedTreeOptions& options);

}  // namespace cairn::inline v0
