// strided.h -- walks two strided arrays of one shape together, in the order with the best memory
// access.
#pragma once

#include <cairn/types.h>

#include <vector>

namespace cairn::inline v0 {

// One dimension of a walk: the number of steps, and the distance in bytes of a step in each array.
struct WalkDim {
  std::int64_t n = 0;
  std::int64_t from = 0;
  std::int64_t to = 0;
};

// The elements of two arrays in the smallest number of dimensions, outermost first. Extents of 1
// are removed and contiguous dimensions merged. The last dimension has the smallest step in `to`,
// which is never negative.
struct Walk {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::vector<WalkDim> dims;
  bool empty = false;  // true: no elements
};

// Plans the walk. Throws invalid_argument unless both arrays have the same shape.
Walk plan_walk(const ArrayView& from, const MutableArrayView& to);

// Copies elements of this size along a walk.
void copy_walk(Walk walk, std::size_t element_size);

// Returns the dimension with the smallest step in `from`, ignoring steps of 0. `dims` must not be
// empty.
std::size_t fastest_in_from(std::span<const WalkDim> dims);

// Calls body(from, to) for every position in `dims`, the last dimension fastest. It does not
// recurse, because ranks come from files.
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

}  // namespace cairn::inline v0
