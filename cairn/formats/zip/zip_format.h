// zip_format.h -- constants of the zip format that the reader and the writer share.
#pragma once

#include <cstdint>

namespace cairn::inline v0 {

// In a field of 32 bits: the value is in the zip64 record, in 64 bits.
inline constexpr std::uint32_t kIn64Bits = 0xffffffff;
// The tag of the extra field that is the zip64 record.
inline constexpr std::uint16_t kZip64Tag = 1;
// The flag of a member whose name is UTF-8.
inline constexpr std::uint16_t kUtf8Name = 0x800;

}  // namespace cairn::inline v0
