// checksum_portable.cc -- CRC-32 and Adler-32 of zlib; CRC-32C by the instructions of SSE 4.2 or of
// ARMv8, or by tables.
#include <cairn/base/checksum_portable.h>

#include <zlib.h>

#ifdef __aarch64__
#include <sys/auxv.h>
#endif

#include <array>
#include <cstring>

namespace cairn::inline v0 {
namespace {

using Table = std::array<std::uint32_t, 256>;

// kTables[k][b] is the effect of byte b on the register k bytes later.
constexpr std::array<Table, 8> make_tables() {
  std::array<Table, 8> tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
    tables[0][byte] = crc;
  }
  for (std::size_t k = 1; k < tables.size(); ++k)
    for (std::size_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t before = tables[k - 1][byte];
      tables[k][byte] = (before >> 8U) ^ tables[0][before & 0xffU];
    }
  return tables;
}
constexpr std::array<Table, 8> kTables = make_tables();

std::uint32_t table_update(std::uint32_t state, ByteView bytes) {
  const auto at = [&](std::size_t i) { return std::to_integer<std::uint32_t>(bytes[i]); };
  while (bytes.size() >= 8) {
    std::uint32_t next = 0;
    for (std::size_t i = 0; i < 4; ++i)
      next ^= kTables[7 - i][(at(i) ^ (state >> (8 * i))) & 0xffU] ^ kTables[3 - i][at(4 + i)];
    state = next;
    bytes = bytes.subspan(8);
  }
  for (std::size_t i = 0; i < bytes.size(); ++i)
    state = (state >> 8U) ^ kTables[0][(state ^ at(i)) & 0xffU];
  return state;
}

#if defined(__x86_64__) && defined(__GNUC__)
__attribute__((target("sse4.2"))) std::uint32_t instruction_update(std::uint32_t state,
                                                                   ByteView bytes) {
  std::uint64_t wide = state;
  while (bytes.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    wide = __builtin_ia32_crc32di(wide, word);
    bytes = bytes.subspan(sizeof(word));
  }
  state = static_cast<std::uint32_t>(wide);
  for (const std::byte byte : bytes)
    state = __builtin_ia32_crc32qi(state, std::to_integer<unsigned char>(byte));
  return state;
}

bool has_instruction() {
  static const bool has = __builtin_cpu_supports("sse4.2") != 0;
  return has;
}
#elif defined(__aarch64__) && defined(__GNUC__)
// In assembly, because GCC and Clang name the intrinsic functions and the target differently.
std::uint32_t instruction_update(std::uint32_t state, ByteView bytes) {
  while (bytes.size() >= sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data(), sizeof(word));
    __asm__(".arch_extension crc\n\tcrc32cx %w0, %w0, %x1" : "+r"(state) : "r"(word));
    bytes = bytes.subspan(sizeof(word));
  }
  for (const std::byte byte : bytes)
    __asm__(".arch_extension crc\n\tcrc32cb %w0, %w0, %w1"
            : "+r"(state)
            : "r"(std::to_integer<std::uint32_t>(byte)));
  return state;
}

bool has_instruction() {
  static const bool has = (getauxval(AT_HWCAP) & HWCAP_CRC32) != 0;
  return has;
}
#else
std::uint32_t instruction_update(std::uint32_t state, ByteView bytes) {
  return table_update(state, bytes);
}
bool has_instruction() { return false; }
#endif

const Bytef* zlib_data(ByteView bytes) { return reinterpret_cast<const Bytef*>(bytes.data()); }

}  // namespace

std::uint32_t portable_crc32c(std::uint32_t crc, ByteView more) {
  return has_instruction() ? ~instruction_update(~crc, more) : table_crc32c(crc, more);
}

std::uint32_t table_crc32c(std::uint32_t crc, ByteView more) { return ~table_update(~crc, more); }

std::uint32_t portable_crc32(std::uint32_t crc, ByteView more) {
  // zlib takes a null pointer for the question for the initial value
  if (more.empty()) return crc;
  return static_cast<std::uint32_t>(::crc32_z(crc, zlib_data(more), more.size()));
}

std::uint32_t portable_adler32(std::uint32_t adler, ByteView bytes) {
  if (bytes.empty()) return adler;
  return static_cast<std::uint32_t>(::adler32_z(adler, zlib_data(bytes), bytes.size()));
}

}  // namespace cairn::inline v0
