// read_plan.h -- the plan that read_boxes makes before it reads any value: what to read, from
// where, to where.
//
//   boxes --chunk grid--> chunks --locate--> stored values --shard index--> stored ranges = units
//
// A unit is one piece of work. It knows its range in a local file, so that units can be sorted and
// neighbours read together.
#pragma once

#include <cairn/types.h>
#include <cairn/zarr/codec/shard.h>
#include <cairn/zarr/metadata/chunk_grid.h>
#include <cairn/zarr/read/array.h>
#include <cairn/zarr/read/decode.h>
#include <cairn/zarr/read/file_table.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0::zarr {

// The largest gap in bytes between two ranges of an object in a store that one request reads: the
// time of a request.
inline constexpr std::uint64_t kRemoteGap = std::uint64_t{1} << 20U;

// How a unit is read.
enum class UnitKind : std::uint8_t {
  kDirect,   // the stored bytes are the destination's bytes
  kValue,    // the range is a whole stored value: decode it
  kSpan,     // the range holds raw elements with strides: copy them
  kRows,     // like kSpan, with gaps so large that each row is read separately
  kByKey,    // the store cannot locate the value: read it by key
  kMissing,  // no value is stored
};

// Identifies the chunk of a read, for messages and for the chunk's key.
struct Place {
  std::uint32_t read = 0;  // index in the list of reads
  std::int64_t chunk = 0;  // number in the array's grid
  // number in the (innermost) shard's grid; -1: no shard, or the whole shard
  std::int64_t entry = -1;
};

// One piece of work. `wanted` is part of a chunk: for kSpan and kRows in the order of dimensions
// after the chain's transpose, for kValue and kByKey before it.
struct Unit {
  UnitKind kind = UnitKind::kValue;
  bool is_remote = false;  // the file is in a store: each read of it is a request
  FileId file = kNoFile;
  Place place;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  const CodecChain* chain = nullptr;
  // not null: the whole unit goes here, in C order and without gaps
  std::byte* direct = nullptr;
  std::uint64_t nbytes = 0;              // destination bytes
  std::unique_ptr<const Wanted> wanted;  // not null: the destination in all other cases
};

// The units of one batch.
struct ReadPlan {
  std::vector<Unit> units;
  // shards whose index must be read before their inner chunks can be planned
  std::vector<Unit> shards;
};

// Plans the chunks of the reads in batches, so that an array of a million chunks does not need a
// million units at once.
class Planner {
 public:
  // Checks every read: boxes lie inside their arrays, and destinations have the right type and
  // shape. Throws invalid_argument or out_of_range; unimplemented for elements without a fixed
  // size.
  Planner(std::span<const BoxRead> reads, FileTable& files);

  // Adds about the next `limit` chunks to `plan`. Returns false when no chunks are left.
  bool plan_some(std::size_t limit, ReadPlan& plan);

 private:
  // Plans an array that is one chunk. Returns false for other arrays.
  bool plan_only_chunk(ReadPlan& plan);
  // Plans one chunk of the current read.
  void plan_chunk(const ChunkPart& part, ReadPlan& plan);
  // Returns a unit for the whole stored value of the chunk at this position.
  Unit locate(std::span<const std::int64_t> position) const;

  std::span<const BoxRead> reads_;
  FileTable* files_;
  std::uint32_t read_ = 0;  // index of the read that is being planned
  std::optional<ChunkCursor> cursor_;
  Shape grid_;
};

// Plans the inner chunks that the unit `shard` wants. `index` is the shard's decoded index.
void plan_shard(std::span<const BoxRead> reads, const Unit& shard,
                const std::vector<ShardEntry>& index, ReadPlan& plan);

// Where the wanted raw elements of a chunk lie: the offset of the first one, the distance from
// there to the end of the last one, and whether rows are so far apart that they are better read
// separately.
struct RawExtent {
  std::uint64_t offset = 0;
  std::uint64_t span = 0;
  // dimensions [0, row_dims) step from row to row; the others lie inside a row
  std::size_t row_dims = 0;
  std::uint64_t row_span = 0;
  bool gapless = false;  // all bytes of the span are wanted
};
RawExtent raw_extent(const Shape& chunk_shape, std::size_t element_size, const Box& part);
// As above, where rows with a gap of more than `row_gap` bytes are better read separately.
RawExtent raw_extent(const Shape& chunk_shape, std::size_t element_size, const Box& part,
                     std::int64_t row_gap);

// Returns "params.dense.kernel: chunk 0.3 (/path/a/0.3), shard entry 2", for errors.
std::string where(std::span<const BoxRead> reads, const Place& place);
// Returns the key of the chunk in its store.
std::string chunk_key(std::span<const BoxRead> reads, const Place& place);

}  // namespace cairn::inline v0::zarr
