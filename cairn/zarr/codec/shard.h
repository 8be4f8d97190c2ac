// shard.h -- where the inner chunks lie in a value of the sharding_indexed codec.
//
//      +-------------------------+---------------+        the index is at the end (default), or at
//      the start | encoded inner chunks    | index         |
//      +-------------------------+---------------+
//   index:
//      0         8         16                16n     16n+4
//      +---------+---------+--  ...  --------+-------+
//      | offset  | nbytes  |  n such entries | crc32c|    n = product of the grid, in C order;
//      integers little-endian
//      +---------+---------+--  ...  --------+-------+    unless the index codecs say big; the crc
//      is optional
//
// Offsets count from the start of the value. An inner chunk that was never written has offset =
// nbytes = 2^64 - 1. The order of the chunks is free, and there may be gaps and overlaps: only the
// index says where anything is.
#pragma once

#include <cairn/types.h>
#include <cairn/zarr/codec/codec_chain.h>

#include <cstdint>
#include <span>
#include <vector>

namespace cairn::zarr {

struct ShardEntry {
  static constexpr std::uint64_t kAbsent = ~std::uint64_t{0};
  std::uint64_t offset = kAbsent;
  std::uint64_t nbytes = kAbsent;
  [[nodiscard]] bool absent() const { return offset == kAbsent && nbytes == kAbsent; }
  bool operator==(const ShardEntry&) const = default;
};

// Where the index lies in a value of `value_size` bytes; data_loss if the value has no room for it.
struct ShardIndexRange {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
};
ShardIndexRange shard_index_range(const ShardCodec& codec, std::uint64_t value_size);

// Decodes the index and checks it: checksum, and every entry inside the value. Throws data_loss.
std::vector<ShardEntry> decode_shard_index(const ShardCodec& codec, ByteView encoded,
                                           std::uint64_t value_size);
// The index of these entries, one for each inner chunk.
Bytes encode_shard_index(const ShardCodec& codec, std::span<const ShardEntry> index);
// Its size, whatever is in it.
std::uint64_t shard_index_size(const ShardCodec& codec);

}  // namespace cairn::zarr
