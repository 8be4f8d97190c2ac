// leaf_batches.h -- reads boxes of many leaves in batches that fit the memory: small leaves
// together, large ones in pieces.
#pragma once

#include <cairn/checkpoint.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace cairn::inline v0 {

// A box to read, or a piece of one.
struct LeafPiece {
  std::size_t number = 0;  // of the box
  Box box;
};
struct CostedBox {
  Box box;
  std::uint64_t element_cost = 0;  // bytes in memory for each element
};

// Calls `work` for batches of pieces, which cost at most about `memory` bytes. Empty boxes have no
// pieces.
void in_batches(std::span<const CostedBox> boxes, std::uint64_t memory,
                const std::function<void(std::span<const LeafPiece>)>& work);

// Reads the pieces as one plan; `index_of` gives the leaf of a box. An error names the checkpoint.
std::vector<Array> read_pieces(const Checkpoint& checkpoint, std::span<const LeafPiece> pieces,
                               const std::function<std::size_t(std::size_t number)>& index_of);

}  // namespace cairn::inline v0
