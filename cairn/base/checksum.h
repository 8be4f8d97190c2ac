// checksum.h -- 32-bit checksums. CRC-32C (Castagnoli): polynomial 0x1edc6f41 reflected, initial
// value and final xor 0xffffffff, as in RFC 3720 appendix B.4; crc32c("123456789") = 0xe3069283.
// Plain form, unless it says masked.
#pragma once

#include <cairn/bytes.h>

#include <bit>
#include <cstdint>

namespace cairn {

std::uint32_t crc32c(ByteView bytes);
// The checksum of A followed by `more`, where crc = crc32c(A).
std::uint32_t crc32c_extend(std::uint32_t crc, ByteView more);
// The form that LevelDB and TensorFlow store, so that checksums of what holds checksums do not go
// wrong: rotated, and a constant added.
inline std::uint32_t crc32c_masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8U; }
// The reverse.
inline std::uint32_t crc32c_unmasked(std::uint32_t masked) {
  return std::rotl(masked - 0xa282ead8U, 15);
}
// The checksum of A followed by B, from those of A and of B and B's length.
std::uint32_t crc32c_combine(std::uint32_t a, std::uint32_t b, std::uint64_t length_b);

// CRC-32 of IEEE 802.3, as zip and gzip carry it: polynomial 0x04c11db7 reflected;
// crc32("123456789") = 0xcbf43926.
std::uint32_t crc32(ByteView bytes);
// The checksum of A followed by `more`, where crc = crc32(A).
std::uint32_t crc32_extend(std::uint32_t crc, ByteView more);
std::uint32_t crc32_combine(std::uint32_t a, std::uint32_t b, std::uint64_t length_b);

// Adler-32 as in RFC 1950, which zlib's streams carry; adler32("123456789") = 0x091e01de.
std::uint32_t adler32(ByteView bytes);

}  // namespace cairn
