// part_checksums.h -- the checksum of a value that several threads and processes read or write in
// parts, in any order.
#pragma once

#include <cairn/formats/raw/checksum_kind.h>
#include <cairn/types.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <span>
#include <vector>

namespace cairn::inline v0 {

// Collects the checksums of the parts of one value. Any thread may add one.
class PartChecksums {
 public:
  explicit PartChecksums(const ChecksumKind& kind) : kind_(kind) {}

  // Records the value's bytes from `offset` on.
  void add(std::uint64_t offset, ByteView bytes);

  // All parts, one after another.
  struct Joined {
    std::uint32_t checksum = 0;
    std::uint64_t bytes = 0;
    bool has_gap = false;  // they are not consecutive parts from the first byte on
  };
  [[nodiscard]] Joined joined() const;

 private:
  struct Part {
    std::uint64_t offset, length;
    std::uint32_t checksum;
  };
  const ChecksumKind& kind_;
  mutable std::mutex mutex_;
  std::vector<Part> parts_;
};

// Encodes the parts of each value that this process wrote: u64 value, u32 checksum, u64 bytes.
Bytes checksums_message(const std::deque<PartChecksums>& values);

// Extends the checksum of each value, which `of` returns, by the checksums in the messages. Process
// i + 1 must have written the bytes that follow those of process i.
void join_checksums(const ChecksumKind& kind, std::span<const Bytes> messages,
                    const std::function<std::uint32_t&(std::size_t value)>& of);

}  // namespace cairn::inline v0
