// build_tree.h -- builds a tree from the paths of its leaves.
#pragma once

#include <cairn/tree.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace cairn::inline v0 {

// Builds the tree whose leaves have these paths, which are borrowed. leaf(i) returns the leaf of
// paths[i]; it is called once for each leaf, in the order of the tree. There must be a path. A leaf
// whose path is a prefix of another one is left out, as in unflatten(), which throws the same
// errors.
Tree build_tree(const std::vector<const KeyPath*>& paths,
                const std::function<Tree(std::size_t)>& leaf);

}  // namespace cairn::inline v0
