// leaf_pairs.h -- finds the leaves of one name in all checkpoints that are merged.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/convert.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// What becomes of a leaf.
enum class MergeRole : std::uint8_t {
  kExcluded,  // the globs leave it out
  kFirst,     // must be equal in all checkpoints, or is that of the first one
  kSummed     // floating-point or complex numbers
};

// A leaf of the first checkpoint.
struct PairedLeaf {
  MergeRole role = MergeRole::kExcluded;
  std::vector<std::size_t> indices;  // of the leaf in each checkpoint; empty if it is excluded
};

// The checkpoints in the order in which they are read, the base first if there is one.
using MergeSources = std::vector<std::shared_ptr<const Checkpoint>>;

// How messages name a checkpoint.
std::string source_text(const Checkpoint& checkpoint);
// "'a' (why), 'b' (why) and 7 more", of the first ten.
std::string leaves_text(std::span<const std::pair<std::string, std::string>> leaves);

// Pairs the leaves of sources[first] with those of the same names in all others; leaves of one name
// are paired in order. The result is parallel to the tensors of sources[first]. Throws
// invalid_argument, listing the leaves, if a checkpoint lacks one, or if kinds or shapes differ,
// and the error of a leaf that cannot be read.
std::vector<PairedLeaf> pair_leaves(const MergeSources& sources, std::size_t first,
                                    const MergeOptions& options);

}  // namespace cairn::inline v0
