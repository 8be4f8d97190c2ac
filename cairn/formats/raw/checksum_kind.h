// checksum_kind.h -- the checksums that the raw formats use. Both kinds can be combined from the
// checksums of parts.
#pragma once

#include <cairn/base/checksum.h>
#include <cairn/types.h>

#include <cstdint>
#include <string_view>

namespace cairn::inline v0 {

// One checksum algorithm: its name and its functions.
struct ChecksumKind {
  std::string_view name;  // for messages
  // the checksum of some bytes
  std::uint32_t (*of)(ByteView);
  // the checksum of A followed by B, where B has `length_b` bytes
  std::uint32_t (*combine)(std::uint32_t a, std::uint32_t b, std::uint64_t length_b);
};
inline constexpr ChecksumKind kCrc32 = {"CRC-32", crc32, crc32_combine};  // used by zip
// used by TensorFlow; not masked
inline constexpr ChecksumKind kCrc32c = {"crc32c", crc32c, crc32c_combine};

}  // namespace cairn::inline v0
