// chunk_grid.h -- finds the chunks of a regular grid that a box touches, and chooses chunk shapes.
//
// Chunk c covers [c * chunk_shape, (c + 1) * chunk_shape) in each dimension. The last chunk may
// extend beyond the array.
#pragma once

#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cairn::inline v0::zarr {

// Returns the number of chunks in each dimension: shape / chunk_shape, rounded up.
Shape grid_shape(std::span<const std::int64_t> shape, std::span<const std::int64_t> chunk_shape);

// Convert a position in a grid to its number in C order, and back.
std::int64_t grid_number(std::span<const std::int64_t> grid,
                         std::span<const std::int64_t> position);
std::vector<std::int64_t> grid_position(std::span<const std::int64_t> grid, std::int64_t number);

// The part of a box that lies in one chunk. `in_chunk` is in the chunk's coordinates. `in_box` is
// the same part in coordinates relative to the origin of the box.
struct ChunkPart {
  std::vector<std::int64_t> position;
  Box in_chunk;
  Box in_box;
};

// Visits every chunk that shares elements with `box`, in C order:
//   for (ChunkCursor chunk(box, chunk_shape); !chunk.done(); chunk.next()) use(chunk.part());
// Borrows both arguments; they must outlive the cursor.
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

// The wanted properties of a chunk. Without either, the chunk is as large as allowed.
struct ChunkTarget {
  std::optional<std::int64_t> bytes;     // the largest size in bytes
  std::vector<std::int64_t> shard_axes;  // these dimensions are cut into single elements first
};

// Returns the chunk shape that Orbax chooses for an array of `shape` that is written in pieces of
// `write_shape`. The chunk shape divides the piece. An extent of 0 counts as 1. Dimensions in which
// the array is already cut are cut further first: the largest one first, each time to its next
// smaller divisor. When these are used up, the other dimensions are cut, too. Throws
// invalid_argument for different ranks, an axis that does not exist, or a target smaller than an
// element.
Shape choose_chunk_shape(const Shape& shape, const Shape& write_shape, std::size_t element_size,
                         const ChunkTarget& target);

// Returns the shape of chunks of at most `most_bytes`, each of which is one run of the piece's
// elements in C order. So a reader can hash, decompress and read a chunk straight into the array,
// and all cores work on one array. Leading dimensions are cut into single elements until a divisor
// of the next one gives chunks that are small enough. Returns the piece if it is small enough, and
// nullopt if all such chunks would have less than a sixteenth of `most_bytes`: many small values
// cost more than they gain.
std::optional<Shape> leading_chunk_shape(const Shape& piece, std::size_t element_size,
                                         std::int64_t most_bytes);

// Returns the byte target that Orbax applies in an OCDBT database whose data files end at
// `data_file_bytes` (0: no limit), so that a chunk is not larger than a file. `chunk_bytes` is the
// user's target, `piece_bytes` the size of a piece.
std::optional<std::int64_t> effective_chunk_bytes(std::optional<std::int64_t> chunk_bytes,
                                                  std::int64_t data_file_bytes,
                                                  std::uint64_t piece_bytes);

}  // namespace cairn::inline v0::zarr
