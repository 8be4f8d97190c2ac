// chunk_plan.h -- the chunks that the boxes of a write touch, and the elements that each receives.
#pragma once

#include <cairn/zarr/write/write_array.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0::zarr {

// A chunk that receives elements.
struct PlannedChunk {
  std::vector<std::int64_t> position;  // in the array's grid
  Box box;                             // the part of the array that it covers
  std::vector<ChunkSource> sources;
  std::int64_t given = 0;  // number of elements of the sources

  [[nodiscard]] bool is_complete() const { return given == element_count(box.shape); }
  // Returns the elements of the box if one source has them in C order, without gaps and in the
  // array's type.
  [[nodiscard]] std::optional<ByteView> contiguous(const ArrayMetadata& metadata) const;
};

// Lists each chunk once.
class ChunkPlan {
 public:
  // Throws invalid_argument for parts that do not match their arrays.
  explicit ChunkPlan(std::span<const ArrayWrite> writes);

  [[nodiscard]] std::size_t size() const { return units_.size(); }
  // The array of a chunk, and the chunk. Throws invalid_argument if two boxes overlap.
  [[nodiscard]] const ArrayWrite& write_of(std::size_t number) const {
    return writes_[units_[number].write];
  }
  [[nodiscard]] PlannedChunk chunk(std::size_t number) const;
  // Returns the chunk in words, for messages.
  [[nodiscard]] std::string where(std::size_t number) const;

 private:
  struct Unit {
    std::size_t write = 0;
    std::int64_t chunk = 0;  // number in the array's grid
  };
  void add(std::size_t number);

  std::span<const ArrayWrite> writes_;
  std::vector<Unit> units_;
};

}  // namespace cairn::inline v0::zarr
