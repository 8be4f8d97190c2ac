// strided.cc -- plans walks with fewer, longer dimensions.
#include <cairn/array/strided.h>

#include <cairn/error.h>

#include <algorithm>

namespace cairn::inline v0 {
namespace {

std::uint64_t magnitude(std::int64_t stride) {
  return stride < 0 ? 0 - static_cast<std::uint64_t>(stride) : static_cast<std::uint64_t>(stride);
}

// Reverses dimensions with negative steps in `to`, so that all walks go forward there.
void point_forward(Walk& walk) {
  for (WalkDim& dim : walk.dims) {
    if (dim.to >= 0) continue;
    walk.from += dim.from * (dim.n - 1);
    walk.to += dim.to * (dim.n - 1);
    dim.from = -dim.from;
    dim.to = -dim.to;
  }
}

void merge_neighbours(std::vector<WalkDim>& dims) {
  std::size_t kept = 0;
  for (std::size_t d = 1; d < dims.size(); ++d) {
    WalkDim& outer = dims[kept];
    const WalkDim& inner = dims[d];
    if (outer.from == inner.from * inner.n && outer.to == inner.to * inner.n)
      outer = {.n = outer.n * inner.n, .from = inner.from, .to = inner.to};
    else
      dims[++kept] = inner;
  }
  if (!dims.empty()) dims.resize(kept + 1);
}

}  // namespace

std::size_t fastest_in_from(std::span<const WalkDim> dims) {
  std::size_t best = dims.size() - 1;
  for (std::size_t d = 0; d + 1 < dims.size(); ++d)
    if (dims[d].from != 0 && magnitude(dims[d].from) < magnitude(dims[best].from)) best = d;
  return best;
}

Walk plan_walk(const ArrayView& from, const MutableArrayView& to) {
  if (from.shape != to.shape)
    throw Error(Code::kInvalidArgument, "cannot copy an array of shape " + shape_text(from.shape) +
                                            " into one of shape " + shape_text(to.shape));
  if (from.strides.size() != from.shape.size() || to.strides.size() != to.shape.size())
    throw Error(Code::kInvalidArgument, "an array view needs one stride for each of its " +
                                            std::to_string(from.shape.size()) + " dimensions");
  Walk walk{.from = from.data, .to = to.data, .dims = {}, .empty = false};
  for (std::size_t d = 0; d < from.shape.size(); ++d) {
    walk.empty |= from.shape[d] == 0;
    if (from.shape[d] != 1)
      walk.dims.push_back({.n = from.shape[d], .from = from.strides[d], .to = to.strides[d]});
  }
  if (walk.empty) return walk;
  point_forward(walk);
  // Writing in address order matters most; for equal steps the caller's order stays.
  std::stable_sort(walk.dims.begin(), walk.dims.end(), [](const WalkDim& a, const WalkDim& b) {
    return a.to != b.to ? a.to > b.to : magnitude(a.from) > magnitude(b.from);
  });
  merge_neighbours(walk.dims);
  return walk;
}

}  // namespace cairn::inline v0
