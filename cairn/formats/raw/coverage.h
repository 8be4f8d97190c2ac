// coverage.h -- how the chunks of a tensor cover it: once, several times, or not everywhere.
#pragma once

#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace cairn::inline v0 {

// A part of a chunk, in the tensor's elements.
struct ChunkPart {
  std::size_t chunk = 0;
  Box box;
};

struct Coverage {
  // Each element that is stored, once: of the last chunk that has it, as PyTorch reads it.
  std::vector<ChunkPart> parts;
  std::vector<ChunkPart> doubles;  // elements of a chunk that a later one has, too
  std::int64_t elements = 0;       // of `parts`
};

// Steps for comparing the chunks of all tensors of a checkpoint.
inline constexpr std::uint64_t kCoverSteps = 50'000'000;

// Finds out which chunk an element is read from. The boxes lie inside the tensor; empty ones become
// parts. Takes what it does from `steps`, and throws data_loss if that does not suffice: then the
// chunks overlap each other very often.
Coverage cover(std::span<const Box> chunks, std::uint64_t& steps);

}  // namespace cairn::inline v0
