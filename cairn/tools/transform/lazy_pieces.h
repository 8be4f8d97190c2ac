// lazy_pieces.h -- cuts a box into pieces whose computation fits the memory.
#pragma once

#include <cairn/tools/transform/lazy_array.h>
#include <cairn/types.h>

#include <cstdint>
#include <functional>

namespace cairn::inline v0 {

// Calls `fill` for pieces of a box whose `cost` is at most `memory` bytes. Halves the box along its
// longest axis until they are.
void in_pieces(const Box& box, std::uint64_t memory,
               const std::function<std::uint64_t(const Box&)>& cost,
               const std::function<void(const Box&)>& fill);

// Reads a piece of an array into memory.
Array read_piece(const LazyArray& array, const Box& box, const LazyContext& context);

}  // namespace cairn::inline v0
