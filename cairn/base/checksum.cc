// checksum.cc -- crc32c, crc32 and Adler-32 with ISA-L; the only file that includes it. With
// CAIRN_WITHOUT_ISAL (CMake option CAIRN_WITH_ISAL) they are those of checksum_portable.h.
#include <cairn/base/checksum.h>

#ifdef CAIRN_WITHOUT_ISAL
#include <cairn/base/checksum_portable.h>
#else
#include <isa-l.h>
#endif

#include <algorithm>
#include <array>
#include <bit>

namespace cairn::inline v0 {
namespace {

// Polynomials over GF(2) of degree below 32, reflected: bit 31 is the coefficient of 1.
constexpr std::uint32_t kIeee = 0xedb88320;
constexpr std::uint32_t kCastagnoli = 0x82f63b78;
constexpr std::uint32_t kOne = std::uint32_t{1} << 31U;

// `p` if the bit is 1, else 0: without a branch, which would be mispredicted half of the time.
constexpr std::uint32_t if_set(std::uint32_t bit, std::uint32_t p) { return p & (0U - bit); }

template <std::uint32_t kModulus>
constexpr std::uint32_t times(std::uint32_t a, std::uint32_t b) {
  std::uint32_t product = 0;
  for (unsigned shift = 32; shift-- > 0;) {
    product ^= if_set((a >> shift) & 1U, b);
    b = (b >> 1U) ^ if_set(b & 1U, kModulus);
  }
  return product;
}

// x^8, and its repeated squares.
template <std::uint32_t kModulus>
constexpr std::array<std::uint32_t, 64> squares() {
  std::array<std::uint32_t, 64> all{};
  std::uint32_t square = kOne >> 8U;
  for (std::uint32_t& one : all) {
    one = square;
    square = times<kModulus>(square, square);
  }
  return all;
}

// Appending B to A multiplies A's polynomial by x^(8 * length).
template <std::uint32_t kModulus>
std::uint32_t combine(std::uint32_t a, std::uint32_t b, std::uint64_t length_b) {
  static constexpr std::array<std::uint32_t, 64> kSquares = squares<kModulus>();
  if (a == 0) return b;
  for (; length_b != 0; length_b &= length_b - 1)
    a = times<kModulus>(a, kSquares[static_cast<std::size_t>(std::countr_zero(length_b))]);
  return a ^ b;
}

}  // namespace

#ifdef CAIRN_WITHOUT_ISAL

std::string checksum_library() { return "Cairn"; }

std::uint32_t crc32c_extend(std::uint32_t crc, ByteView more) { return portable_crc32c(crc, more); }

std::uint32_t crc32_extend(std::uint32_t crc, ByteView bytes) { return portable_crc32(crc, bytes); }

std::uint32_t adler32_extend(std::uint32_t adler, ByteView more) {
  return portable_adler32(adler, more);
}

#else

std::string checksum_library() {
  return "ISA-L " + std::to_string(ISAL_MAJOR_VERSION) + "." + std::to_string(ISAL_MINOR_VERSION) +
         "." + std::to_string(ISAL_PATCH_VERSION);
}

std::uint32_t crc32c_extend(std::uint32_t crc, ByteView more) {
  // ISA-L takes the raw register (without the xor before and after), a non-const pointer that it
  // only reads, and the length as an int.
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

std::uint32_t crc32_extend(std::uint32_t crc, ByteView bytes) {
  constexpr std::size_t kMaxPiece = std::size_t{1} << 30U;
  while (!bytes.empty()) {
    const std::size_t n = std::min(bytes.size(), kMaxPiece);
    crc = crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(bytes.data()), n);
    bytes = bytes.subspan(n);
  }
  return crc;
}

std::uint32_t adler32_extend(std::uint32_t adler, ByteView more) {
  return isal_adler32(adler, reinterpret_cast<const unsigned char*>(more.data()), more.size());
}

#endif

std::uint32_t crc32c(ByteView bytes) { return crc32c_extend(0, bytes); }

std::uint32_t crc32(ByteView bytes) { return crc32_extend(0, bytes); }

std::uint32_t adler32(ByteView bytes) { return adler32_extend(1, bytes); }

std::uint32_t crc32c_combine(std::uint32_t a, std::uint32_t b, std::uint64_t length_b) {
  return combine<kCastagnoli>(a, b, length_b);
}

std::uint32_t crc32_combine(std::uint32_t a, std::uint32_t b, std::uint64_t length_b) {
  return combine<kIeee>(a, b, length_b);
}

}  // namespace cairn::inline v0
