// shard.h -- the index of a value of the sharding_indexed codec. It says where the inner chunks
// lie.
//
//      +-------------------------+---------------+
//      | encoded inner chunks    | index         |   the index is at the end (default),
//      +-------------------------+---------------+   or at the start
//   index:
//      0         8         16                16n     16n+4
//      +---------+---------+--  ...  --------+-------+
//      | offset  | nbytes  |  n such entries | crc32c|   n = product of the grid, in C order
//      +---------+---------+--  ...  --------+-------+
//   Integers are little-endian unless the index codecs say big; the crc is optional.
//
// Offsets count from the start of the value. An inner chunk that was never written has offset =
// nbytes = 2^64 - 1. The chunks may lie in any order, with gaps and overlaps: only the index says
// where they are.
#pragma once

#include <cairn/types.h>
#include <cairn/zarr/codec/codec_chain.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::inline v0::zarr {

// One entry of the index.
struct ShardEntry {
  static constexpr std::uint64_t kAbsent = ~std::uint64_t{0};
  std::uint64_t offset = kAbsent;
  std::uint64_t nbytes = kAbsent;
  [[nodiscard]] bool absent() const { return offset == kAbsent && nbytes == kAbsent; }
  bool operator==(const ShardEntry&) const = default;
};

// The byte range of the index in a value.
struct ShardIndexRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};
// Returns the range of the index in a value of `value_size` bytes. Throws data_loss if the value is
// too small for it, and unimplemented for more inner chunks than Cairn reads.
ShardIndexRange shard_index_range(const ShardCodec& codec, std::uint64_t value_size);

// Decodes the index. Throws data_loss if its checksum is wrong or an entry lies outside the value.
std::vector<ShardEntry> decode_shard_index(const ShardCodec& codec, ByteView encoded,
                                           std::uint64_t value_size);
// Encodes the index; `index` has one entry for each inner chunk.
Bytes encode_shard_index(const ShardCodec& codec, std::span<const ShardEntry> index);
// Returns the size of the encoded index in bytes.
std::uint64_t shard_index_size(const ShardCodec& codec);

}  // namespace cairn::inline v0::zarr
