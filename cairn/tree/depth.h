// depth.h -- the depth limit of trees.
#pragma once

#include <cairn/error.h>
#include <cairn/tree.h>

#include <cstddef>
#include <string>

namespace cairn::inline v0 {

// Trees are processed (and destroyed) recursively. Real trees stay far below this depth because of
// Python's recursion limit.
inline constexpr std::size_t kMaxTreeDepth = 1000;

// Throws invalid_argument for a node below that depth.
inline void check_tree_depth(std::size_t depth) {
  if (depth > kMaxTreeDepth)
    throw Error(Code::kInvalidArgument,
                "the tree is more than " + std::to_string(kMaxTreeDepth) + " levels deep");
}
// Returns the text of the error for a node at this path, with the first keys of the path.
std::string too_deep_text(const KeyPath& path);
// As check_tree_depth, for the node at this path, which the error names.
inline void check_tree_depth(const KeyPath& path) {
  if (path.size() > kMaxTreeDepth) throw Error(Code::kInvalidArgument, too_deep_text(path));
}

}  // namespace cairn::inline v0
