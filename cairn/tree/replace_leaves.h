// replace_leaves.h -- replaces the leaves of a tree in place.
#pragma once

#include <cairn/tree.h>

#include <functional>

namespace cairn::inline v0 {

// Returns the replacement of a leaf, or of the empty node of a container without children.
using ReplaceFn = std::function<Tree(const Tree& leaf)>;

// Like map_leaves, for a tree that is not needed any more. Copies no keys.
void replace_leaves(Tree& tree, const ReplaceFn& leaf);

}  // namespace cairn::inline v0
