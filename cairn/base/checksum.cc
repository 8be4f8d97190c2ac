// checksum.cc -- crc32c on ISA-L; the only file that sees it.
#include <cairn/base/checksum.h>
#include <isa-l/crc.h>

#include <algorithm>

namespace cairn {

std::uint32_t crc32c(ByteView bytes) { return crc32c_extend(0, bytes); }

std::uint32_t crc32c_extend(std::uint32_t crc, ByteView more) {
  // ISA-L takes the raw register, without the xor before and after, a non-const pointer that it only reads, and an int.
  constexpr std::size_t kMaxPiece = std::size_t{1} << 30U;
  std::uint32_t state = ~crc;
  while (!more.empty()) {
    const std::size_t n = std::min(more.size(), kMaxPiece);
    auto* data = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(more.data()));
    state = crc32_iscsi(data, static_cast<int>(n), state);
    more = more.subspan(n);
  }
  return ~state;
}

}  // namespace cairn
