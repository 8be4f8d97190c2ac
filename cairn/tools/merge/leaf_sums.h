// leaf_sums.h -- reads boxes of merged leaves: the same box of every checkpoint, one checkpoint
// after the other, summed in float64 and rounded once.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/checkpoint.h>
#include <cairn/tools/merge/leaf_pairs.h>
#include <cairn/tools/merge/merge_formula.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::inline v0 {

// What sums are made of.
struct SumSources {
  const MergeSources& sources;
  std::size_t first = 0;  // 1 if sources[0] is the base, else 0
  const std::vector<PairedLeaf>& leaves;
  const MergeFormula& formula;
};

// Fills the destinations, whose types may be any floating-point types, or complex ones for complex
// leaves. Uses about `memory` bytes, and the threads of the executor. Throws data_loss that names
// the checkpoint and the leaf.
void read_sums(const SumSources& from, std::span<const ReadRequest> requests, std::uint64_t memory,
               Executor& executor);

}  // namespace cairn::inline v0
