// strided.h -- walking two strided arrays of one shape together, in the order that suits memory
// best.
#pragma once

#include <cairn/types.h>

#include <cstdlib>
#include <vector>

namespace cairn {

// One dimension of the walk: how many steps, and how far (in bytes) a step moves in each array.
struct WalkDim {
  std::int64_t n = 0;
  std::int64_t from = 0;
  std::int64_t to = 0;
};

// The elements of two arrays, as few dimensions as describe them, outermost first. Extents of 1 are
// gone, dimensions that continue each other are one, and the last one has the smallest step in `to`
// (never a negative one).
struct Walk {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::vector<WalkDim> dims;
  bool empty = false;  // not one element
};

// Throws invalid_argument unless both have the same shape.
Walk plan_walk(const ArrayView& from, const MutableArrayView& to);

// Copies elements of this size along a walk.
void copy_walk(Walk walk, std::size_t element_size);

// Which dimension has the smallest step in `from` (0 does not count); there is at least one.
std::size_t fastest_in_from(std::span<const WalkDim> dims);

// Calls body(from, to) for every position in `dims`, the last dimension fastest. No recursion:
// ranks come from files.
template <class Body>
void walk_over(const Walk& walk, std::span<const WalkDim> dims, Body&& body) {
  std::vector<std::int64_t> index(dims.size(), 0);
  const std::byte* from = walk.from;
  std::byte* to = walk.to;
  while (true) {
    body(from, to);
    std::size_t d = dims.size();
    for (; d > 0; --d) {
      const WalkDim& dim = dims[d - 1];
      if (++index[d - 1] < dim.n) {
        from += dim.from;
        to += dim.to;
        break;
      }
      index[d - 1] = 0;
      from -= dim.from * (dim.n - 1);
      to -= dim.to * (dim.n - 1);
    }
    if (d == 0) return;
  }
}

}  // namespace cairn
