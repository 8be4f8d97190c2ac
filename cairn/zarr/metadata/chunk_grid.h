// chunk_grid.h -- which chunks of a regular grid a box touches, and where; and how large chunks
// should be.
//
// Chunk c covers [c * chunk_shape, (c + 1) * chunk_shape) in each dimension; the last one may reach
// beyond the array.
#pragma once

#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cairn::zarr {

// How many chunks there are in each dimension: shape / chunk_shape, rounded up.
Shape grid_shape(std::span<const std::int64_t> shape, std::span<const std::int64_t> chunk_shape);

// Number of a position in a grid, counted in C order, and back.
std::int64_t grid_number(std::span<const std::int64_t> grid,
                         std::span<const std::int64_t> position);
std::vector<std::int64_t> grid_position(std::span<const std::int64_t> grid, std::int64_t number);

// What a box wants of one chunk. `in_chunk` is in the chunk's coordinates; `in_box` is the same
// part in coordinates whose origin is the origin of the box.
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

// What a chunk should be like; the largest that is allowed, if neither is given.
struct ChunkTarget {
  std::optional<std::int64_t> bytes;    // no more than this
  std::vector<std::size_t> shard_axes;  // cut into single elements along these dimensions first
};

// The chunk shape that Orbax chooses for an array of `shape` that is written in pieces of
// `write_shape`: it divides the piece. Extents of 0 count as 1. Dimensions in which the array
// already is cut are cut further first, the largest first, each time to its next smaller divisor;
// only when that is used up, the others too. Throws invalid_argument for different ranks, an axis
// that is none, or a target smaller than an element.
Shape choose_chunk_shape(const Shape& shape, const Shape& write_shape, std::size_t element_size,
                         const ChunkTarget& target);

// The byte target that Orbax applies in an OCDBT database whose data files end at `data_file_bytes`
// (0: never): no chunk is larger than a file. `chunk_bytes` is what the user wants, `piece_bytes`
// the size of a piece.
std::optional<std::int64_t> effective_chunk_bytes(std::optional<std::int64_t> chunk_bytes,
                                                  std::int64_t data_file_bytes,
                                                  std::uint64_t piece_bytes);

}  // namespace cairn::zarr
