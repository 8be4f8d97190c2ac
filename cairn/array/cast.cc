// cast.cc -- converts strided arrays: whole runs if both sides are contiguous, else tile by tile.
#include <cairn/array/box.h>
#include <cairn/array/cast_plan.h>
#include <cairn/array/strided.h>
#include <cairn/error.h>

#include <algorithm>
#include <array>
#include <string>

namespace cairn::inline v0 {
namespace {

// Small enough for the stack and the second-level cache; large enough that each row is whole cache
// lines.
constexpr std::int64_t kEdge = 64;
constexpr std::int64_t kTile = kEdge * kEdge;

struct Tile {
  const std::byte* from;
  std::byte* to;
  WalkDim rows;
  WalkDim columns;
};

// Gathers a tile, converts it and scatters it.
void cast_tile(const CastPlan& cast, const Tile& tile) {
  alignas(64) std::array<std::byte, kTile * 16> gathered;
  alignas(64) std::array<std::byte, kTile * 16> converted;
  const auto from_size = static_cast<std::int64_t>(cast.from_size());
  const auto to_size = static_cast<std::int64_t>(cast.to_size());
  const WalkDim& rows = tile.rows;
  const WalkDim& columns = tile.columns;
  copy_walk(
      {.from = tile.from,
       .to = gathered.data(),
       .dims = {{rows.n, rows.from, columns.n * from_size}, {columns.n, columns.from, from_size}},
       .empty = false},
      cast.from_size());
  cast.run(gathered.data(), converted.data(), static_cast<std::size_t>(rows.n * columns.n));
  copy_walk({.from = converted.data(),
             .to = tile.to,
             .dims = {{rows.n, columns.n * to_size, rows.to}, {columns.n, to_size, columns.to}},
             .empty = false},
            cast.to_size());
}

void cast_tiled(const CastPlan& cast, const Walk& walk) {
  std::vector<WalkDim> outer = walk.dims;
  const WalkDim columns = outer.back();
  const std::size_t fast = fastest_in_from(outer);
  WalkDim rows{.n = 1, .from = 0, .to = 0};
  const bool disagree = fast + 1 != outer.size();
  if (disagree) {
    rows = outer[fast];
    outer.erase(outer.begin() + static_cast<std::ptrdiff_t>(fast));
  }
  outer.pop_back();
  const std::int64_t width = disagree ? kEdge : kTile;
  const std::int64_t height = kTile / width;
  walk_over(walk, outer, [&](const std::byte* from, std::byte* to) {
    for (std::int64_t r = 0; r < rows.n; r += height)
      for (std::int64_t c = 0; c < columns.n; c += width)
        cast_tile(cast, {.from = from + r * rows.from + c * columns.from,
                         .to = to + r * rows.to + c * columns.to,
                         .rows = {std::min(height, rows.n - r), rows.from, rows.to},
                         .columns = {std::min(width, columns.n - c), columns.from, columns.to}});
  });
}

void check_interpreted(DType dtype, std::size_t element_size) {
  if (dtype == DType::kOpaque)
    throw Error(Code::kInvalidArgument,
                "opaque elements cannot be cast: Cairn does not know what they mean");
  if (element_size != dtype_size(dtype))
    throw Error(Code::kInvalidArgument, "an element of " + std::string(dtype_name(dtype)) +
                                            " has " + std::to_string(dtype_size(dtype)) +
                                            " bytes, not " + std::to_string(element_size));
}

}  // namespace

void cast_elements(const ArrayView& from, const MutableArrayView& to) {
  check_interpreted(from.dtype, from.element_size);
  check_interpreted(to.dtype, to.element_size);
  if (from.dtype == to.dtype) return copy_elements(from, to);
  Walk walk = plan_walk(from, to);
  if (walk.empty) return;
  const CastPlan cast(from.dtype, to.dtype);
  if (walk.dims.empty()) return cast.run(walk.from, walk.to, 1);
  const WalkDim last = walk.dims.back();
  const auto from_size = static_cast<std::int64_t>(cast.from_size());
  const auto to_size = static_cast<std::int64_t>(cast.to_size());
  if (last.from != from_size || last.to != to_size) return cast_tiled(cast, walk);
  walk.dims.pop_back();
  walk_over(walk, walk.dims, [&](const std::byte* source, std::byte* target) {
    cast.run(source, target, static_cast<std::size_t>(last.n));
  });
}

}  // namespace cairn::inline v0
