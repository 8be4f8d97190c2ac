// equal_leaves.h -- compares the leaves that are not floating-point between the checkpoints.
#pragma once

#include <cairn/tools/merge/leaf_pairs.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// (name, which checkpoint has another value) of the leaves with MergeRole::kFirst that differ from
// those of sources[first], in its order. Integers of different sizes are equal if the numbers are.
// Uses about `memory` bytes.
std::vector<std::pair<std::string, std::string>> find_differing_leaves(
    const MergeSources& sources, std::size_t first, const std::vector<PairedLeaf>& leaves,
    std::uint64_t memory);

}  // namespace cairn::inline v0
