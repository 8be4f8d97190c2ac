// nested_paths.h -- the nested state dict behind flat names: the paths that a planner has recorded.
#pragma once

#include <cairn/formats/pytorch/distributed/saved_metadata.h>
#include <cairn/tree.h>

#include <cstddef>
#include <functional>
#include <vector>

namespace cairn::inline v0::pytorch {

// Makes the tree of values that have these paths. Indices of a list that no path has stand for
// None, as in PyTorch. `leaf` gives the part of the tree for value number i, which lies at `path`;
// `none` that for an index without a value. Both are called in the order of the tree. Dicts keep
// the order of the values.
//
// A value whose path begins with that of another value, or equals it, cannot be in one tree: then
// every value gets a path of one step, its name.
Tree nest(const std::vector<StatePath>& paths, const std::vector<std::string>& names,
          const std::function<Tree(std::size_t i, const KeyPath& path)>& leaf,
          const std::function<Tree(const KeyPath& path)>& none);

}  // namespace cairn::inline v0::pytorch
