// part_checksums.h -- checksums of values that several threads and processes write in parts, in any
// order.
#pragma once

#include <cairn/formats/raw/checksum_kind.h>
#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

// The checksums of the parts of some items that one process has written.
class PartChecksums {
 public:
  PartChecksums(const ChecksumKind& kind, std::size_t items) : kind_(kind), parts_(items) {}

  // Records the bytes of an item from `offset` of it on. Any thread may call it.
  void add(std::size_t item, std::uint64_t offset, ByteView bytes);
  // Encodes the checksums, item by item: u64 item, u32 checksum, u64 bytes.
  [[nodiscard]] Bytes message() const;

 private:
  ChecksumKind kind_;
  std::mutex mutex_;
  std::vector<std::map<std::uint64_t, std::pair<std::uint32_t, std::uint64_t>>> parts_;
};

// Extends the checksum of each item, which `of` returns, by the checksums in the messages. Process
// i + 1 must have written the bytes that follow those of process i.
void join_checksums(const ChecksumKind& kind, std::span<const Bytes> messages,
                    const std::function<std::uint32_t&(std::size_t item)>& of);

}  // namespace cairn::inline v0
