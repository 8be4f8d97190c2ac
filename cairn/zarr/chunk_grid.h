// chunk_grid.h -- which chunks of a regular grid a box touches, and where.
//
// Chunk c covers [c * chunk_shape, (c + 1) * chunk_shape) in each dimension; the last one may reach beyond the array.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::zarr {

// How many chunks there are in each dimension: shape / chunk_shape, rounded up.
Shape grid_shape(std::span<const std::int64_t> shape, std::span<const std::int64_t> chunk_shape);

// Number of a position in a grid, counted in C order, and back.
std::int64_t grid_number(std::span<const std::int64_t> grid, std::span<const std::int64_t> position);
std::vector<std::int64_t> grid_position(std::span<const std::int64_t> grid, std::int64_t number);

// What a box wants of one chunk. `in_chunk` is in the chunk's coordinates; `in_box` is the same part in coordinates whose
// origin is the origin of the box.
struct ChunkPart {
  std::vector<std::int64_t> position;
  Box in_chunk;
  Box in_box;
};

// Visits every chunk that shares elements with `box`, in C order:
//   for (ChunkCursor chunk(box, chunk_shape); !chunk.done(); chunk.next()) use(chunk.part());
// Borrows both; they must outlive it.
class ChunkCursor {
 public:
  ChunkCursor(const Box& box, std::span<const std::int64_t> chunk_shape);
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] const ChunkPart& part() const { return part_; }
  void next();

 private:
  void update(std::size_t d);

  const Box* box_;
  std::span<const std::int64_t> chunk_shape_;
  ChunkPart part_;
  bool done_;
};

}  // namespace cairn::zarr
