// copied_tree.h -- a copy of a tree, so that the caller may go on while the copy is saved.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/tree.h>

namespace cairn::inline v0 {

// Returns the tree with copies of the bytes of its arrays, and of those shards of sharded arrays
// that are replica 0; other shards lose their values. Throws unavailable if the memory cannot be
// allocated.
Tree copied_tree(const Tree& tree, Executor& executor);

}  // namespace cairn::inline v0
