// checksum_kind.h -- checksums that can be put together from those of parts, as the formats choose
// among them.
#pragma once

#include <cairn/base/checksum.h>
#include <cairn/types.h>

#include <cstdint>
#include <string_view>

namespace cairn {

struct ChecksumKind {
  std::string_view name;  // for people
  std::uint32_t (*of)(ByteView);
  // that of A followed by B
  std::uint32_t (*combine)(std::uint32_t a, std::uint32_t b, std::uint64_t length_b);
};
inline constexpr ChecksumKind kCrc32 = {"CRC-32", crc32, crc32_combine};  // of zip
// of TensorFlow, not masked
inline constexpr ChecksumKind kCrc32c = {"crc32c", crc32c, crc32c_combine};

}  // namespace cairn
