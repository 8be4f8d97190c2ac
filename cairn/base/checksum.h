// checksum.h -- 32-bit checksums: CRC-32C, CRC-32 and Adler-32. CRC-32C (Castagnoli) has the
// polynomial 0x1edc6f41 reflected, initial value and final xor 0xffffffff, as in RFC 3720 appendix
// B.4; crc32c("123456789") = 0xe3069283. All functions use the plain form unless the name says
// masked.
#pragma once

#include <cairn/bytes.h>

#include <bit>
#include <cstdint>
#include <string>

namespace cairn::inline v0 {

// What computes the checksums: "ISA-L 2.30.0", or "Cairn" where it is built without.
std::string checksum_library();

// Returns the CRC-32C of the bytes.
std::uint32_t crc32c(ByteView bytes);
// Returns the checksum of A followed by `more`, where crc = crc32c(A).
std::uint32_t crc32c_extend(std::uint32_t crc, ByteView more);
// Returns the masked form that LevelDB and TensorFlow store: rotated, plus a constant. With it, a
// checksum of data that contains checksums stays reliable.
inline std::uint32_t crc32c_masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8U; }
// Returns the plain form of a masked checksum.
inline std::uint32_t crc32c_unmasked(std::uint32_t masked) {
  return std::rotl(masked - 0xa282ead8U, 15);
}
// Returns the checksum of A followed by B. `a` and `b` are the checksums of A and B; `length_b` is
// the length of B in bytes.
std::uint32_t crc32c_combine(std::uint32_t a, std::uint32_t b, std::uint64_t length_b);

// Returns the CRC-32 of IEEE 802.3, as in zip and gzip files: polynomial 0x04c11db7 reflected;
// crc32("123456789") = 0xcbf43926.
std::uint32_t crc32(ByteView bytes);
// Returns the checksum of A followed by `more`, where crc = crc32(A).
std::uint32_t crc32_extend(std::uint32_t crc, ByteView more);
// As crc32c_combine, for CRC-32.
std::uint32_t crc32_combine(std::uint32_t a, std::uint32_t b, std::uint64_t length_b);

// Returns the Adler-32 checksum of RFC 1950, as in zlib streams; adler32("123456789") = 0x091e01de.
std::uint32_t adler32(ByteView bytes);
// Returns the checksum of A followed by `more`, where adler = adler32(A).
std::uint32_t adler32_extend(std::uint32_t adler, ByteView more);

}  // namespace cairn::inline v0
