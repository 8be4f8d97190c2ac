// shard.cc -- the index of a shard: its position, its checksum, its entries.
#include <cairn/zarr/codec/shard.h>

#include <cairn/base/byte_io.h>
#include <cairn/base/checksum.h>
#include <cairn/error.h>

#include <string>
#include <utility>

namespace cairn::inline v0::zarr {
namespace {

constexpr std::uint64_t kEntrySize = 16;
// the whole index is read, and takes 32 bytes of memory per entry
constexpr std::uint64_t kMaxEntries = std::uint64_t{1} << 22U;

void check_entry(const ShardEntry& entry, std::size_t number, std::uint64_t value_size) {
  if (entry.absent()) return;
  const std::uint64_t end = entry.offset + entry.nbytes;
  const bool half_absent =
      entry.offset == ShardEntry::kAbsent || entry.nbytes == ShardEntry::kAbsent;
  if (!half_absent && end >= entry.offset && end <= value_size) return;
  throw Error(Code::kDataLoss, "shard index entry " + std::to_string(number) + " with offset " +
                                   std::to_string(entry.offset) + " and length " +
                                   std::to_string(entry.nbytes) + " is invalid for a shard of " +
                                   std::to_string(value_size) + " bytes");
}

}  // namespace

ShardIndexRange shard_index_range(const ShardCodec& codec, std::uint64_t value_size) {
  const auto entries = static_cast<std::uint64_t>(element_count(codec.grid));
  const std::uint64_t crc = codec.index_crc32c ? 4 : 0;
  // Divide the actual size instead of multiplying the stated count: 16 * n may overflow.
  if (value_size < crc || (value_size - crc) / kEntrySize < entries)
    throw Error(Code::kDataLoss,
                "shard of " + std::to_string(value_size) + " bytes is too small for an index of " +
                    std::to_string(entries) + (entries == 1 ? " entry" : " entries"));
  if (entries > kMaxEntries)
    throw Error(Code::kUnimplemented, "the shard has " + std::to_string(entries) +
                                          " inner chunks; Cairn reads at most " +
                                          std::to_string(kMaxEntries));
  const std::uint64_t length = kEntrySize * entries + crc;
  return {.offset = codec.index_at_start ? 0 : value_size - length, .length = length};
}

std::vector<ShardEntry> decode_shard_index(const ShardCodec& codec, ByteView encoded,
                                           std::uint64_t value_size) {
  const ByteView entries = codec.index_crc32c ? encoded.first(encoded.size() - 4) : encoded;
  if (codec.index_crc32c) {
    ByteReader tail(encoded.last(4));
    const std::uint32_t stored = tail.u32();
    const std::uint32_t computed = crc32c(entries);
    if (stored != computed)
      throw Error(Code::kDataLoss, "shard index: crc32c mismatch: stored " +
                                       std::to_string(stored) + ", computed " +
                                       std::to_string(computed));
  }
  ByteReader in(entries);
  std::vector<ShardEntry> index(entries.size() / kEntrySize);
  for (std::size_t i = 0; i < index.size(); ++i) {
    const std::uint64_t offset = codec.index_big_endian ? in.u64_be() : in.u64();
    const std::uint64_t nbytes = codec.index_big_endian ? in.u64_be() : in.u64();
    index[i] = {.offset = offset, .nbytes = nbytes};
    check_entry(index[i], i, value_size);
  }
  in.finish();
  return index;
}

Bytes encode_shard_index(const ShardCodec& codec, std::span<const ShardEntry> index) {
  ByteWriter out;
  const auto put = [&](std::uint64_t number) {
    out.u64(codec.index_big_endian ? __builtin_bswap64(number) : number);
  };
  for (const ShardEntry& entry : index) {
    put(entry.offset);
    put(entry.nbytes);
  }
  if (codec.index_crc32c) out.u32(crc32c(out.view()));
  return std::move(out).take();
}

std::uint64_t shard_index_size(const ShardCodec& codec) {
  return kEntrySize * static_cast<std::uint64_t>(element_count(codec.grid)) +
         (codec.index_crc32c ? 4 : 0);
}

}  // namespace cairn::inline v0::zarr
