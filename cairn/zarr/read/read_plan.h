// read_plan.h -- what must be read, from where, to where: the plan that read_boxes makes before it
// touches any value.
//
//   boxes --chunk grid--> chunks --locate--> stored values --shard index--> stored ranges = units
//   of work
//
// A unit knows its range of a local file, so that units can be sorted and neighbours read together.
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

namespace cairn::zarr {

enum class UnitKind : std::uint8_t {
  kDirect,   // stored bytes are the destination's bytes
  kValue,    // the range is a whole stored value: decode it
  kSpan,     // the range holds raw elements with strides: copy them out
  kRows,     // as kSpan, but so spread out that each row is read on its own
  kByKey,    // the store cannot say where the value is: ask for it by key
  kMissing,  // nothing is stored
};

// Which chunk of which read, for messages and for its key.
struct Place {
  std::uint32_t read = 0;   // index into the reads
  std::int64_t chunk = 0;   // number in the array's grid
  std::int64_t entry = -1;  // number in the (innermost) shard's grid; -1: no shard, or all of it
};

// The general destination: part of a chunk, in the order of dimensions after the chain's transpose
// for kSpan and kRows, before it for kValue and kByKey.
struct Unit {
  UnitKind kind = UnitKind::kValue;
  FileId file = kNoFile;
  Place place;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  const CodecChain* chain = nullptr;
  std::byte* direct = nullptr;           // set: everything lands here, in C order and without gaps
  std::uint64_t nbytes = 0;              // destination bytes
  std::unique_ptr<const Wanted> wanted;  // set: everything else
};

struct ReadPlan {
  std::vector<Unit> units;
  std::vector<Unit> shards;  // whose index must be read before their inner chunks can be planned
};

// Walks the reads and plans their chunks, a limited number at a time, so that an array of a million
// chunks needs no million units at once.
class Planner {
 public:
  // Checks every read: boxes inside their arrays, destinations of the right type and shape. Throws
  // invalid_argument or out_of_range.
  Planner(std::span<const BoxRead> reads, FileTable& files);

  // Adds the next chunks, about `limit` of them, to `plan`; false: there are none left.
  bool plan_some(std::size_t limit, ReadPlan& plan);

 private:
  bool plan_only_chunk(ReadPlan& plan);
  void plan_chunk(const ChunkPart& part, ReadPlan& plan);
  Unit locate(std::span<const std::int64_t> position) const;

  std::span<const BoxRead> reads_;
  FileTable* files_;
  std::uint32_t read_ = 0;  // the one being planned
  std::optional<ChunkCursor> cursor_;
  Shape grid_;
};

// Plans the inner chunks that `shard` wants, its index being known.
void plan_shard(std::span<const BoxRead> reads, const Unit& shard,
                const std::vector<ShardEntry>& index, ReadPlan& plan);

// The path of raw elements in a chunk: where the first wanted one is, how far it is to the end of
// the last, and whether gaps between rows are so large that rows are better read apart.
struct RawExtent {
  std::uint64_t offset = 0;
  std::uint64_t span = 0;
  // dimensions [0, row_dims) step from row to row; the others are inside one
  std::size_t row_dims = 0;
  std::uint64_t row_span = 0;
  bool gapless = false;  // all bytes of the span are wanted
};
RawExtent raw_extent(const Shape& chunk_shape, std::size_t element_size, const Box& part);

// "params.dense.kernel: chunk 0.3 (/path/a/0.3), shard entry 2": for errors.
std::string where(std::span<const BoxRead> reads, const Place& place);
// The key of the chunk in its store.
std::string chunk_key(std::span<const BoxRead> reads, const Place& place);

}  // namespace cairn::zarr
