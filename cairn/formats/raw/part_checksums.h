// part_checksums.h -- checksums of values that are written in parts, by several threads and
// processes in any order.
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

namespace cairn {

// What one process has written of some items.
class PartChecksums {
 public:
  PartChecksums(const ChecksumKind& kind, std::size_t items) : kind_(kind), parts_(items) {}

  // The bytes of an item that begin at `offset` of it. From any thread.
  void add(std::size_t item, std::uint64_t offset, ByteView bytes);
  // The checksums, item by item: u64 item, u32 checksum, u64 bytes.
  [[nodiscard]] Bytes message() const;

 private:
  ChecksumKind kind_;
  std::mutex mutex_;
  std::vector<std::map<std::uint64_t, std::pair<std::uint32_t, std::uint64_t>>> parts_;
};

// Extends the checksum of each item, which `of` gives, by what the processes' messages say, which
// have written one behind the other.
void join_checksums(const ChecksumKind& kind, std::span<const Bytes> messages,
                    const std::function<std::uint32_t&(std::size_t item)>& of);

}  // namespace cairn
