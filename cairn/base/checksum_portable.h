// checksum_portable.h -- the three checksums of checksum.h without ISA-L, for platforms that do not
// have it and for static programs: Debian has no static ISA-L. checksum.cc decides which are used;
// these are compiled in any case, so that the tests compare both.
#pragma once

#include <cairn/bytes.h>

#include <cstdint>

namespace cairn::inline v0 {

// As crc32c_extend, crc32_extend and adler32 of checksum.h.
std::uint32_t portable_crc32c(std::uint32_t crc, ByteView more);
std::uint32_t portable_crc32(std::uint32_t crc, ByteView more);
std::uint32_t portable_adler32(std::uint32_t adler, ByteView bytes);
// portable_crc32c without the instructions of the processor, which it uses where they exist.
std::uint32_t table_crc32c(std::uint32_t crc, ByteView more);

}  // namespace cairn::inline v0
