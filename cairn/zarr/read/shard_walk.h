// shard_walk.h -- goes through the inner chunks of a shard that a box touches.
#pragma once

#include <cairn/zarr/codec/shard.h>
#include <cairn/zarr/metadata/chunk_grid.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace cairn::inline v0::zarr {

// Calls visit(number, entry, part) for each inner chunk that `box` touches. `box` is in the shard's
// coordinates, `index` the shard's decoded index, and `number` the place of the entry in it.
template <class Visit>
void for_each_inner_chunk(const ShardCodec& shard, const std::vector<ShardEntry>& index,
                          const Box& box, Visit visit) {
  for (ChunkCursor chunk(box, shard.chunk_shape); !chunk.done(); chunk.next()) {
    const std::int64_t number = grid_number(shard.grid, chunk.part().position);
    visit(number, index[static_cast<std::size_t>(number)], chunk.part());
  }
}

// Names an inner chunk in errors.
inline std::string shard_entry_text(std::int64_t number) {
  return "shard entry " + std::to_string(number);
}

}  // namespace cairn::inline v0::zarr
