// utf8.cc -- validation by the table of well-formed byte sequences (Unicode standard, table 3-7).
#include <cairn/base/utf8.h>

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace cairn {
namespace {

// Bytes behind `lead` in its sequence; -1 if no sequence begins with it.
int tail_length(unsigned lead) {
  if (lead < 0x80) return 0;
  if (lead >= 0xc2 && lead <= 0xdf) return 1;
  if (lead >= 0xe0 && lead <= 0xef) return 2;
  if (lead >= 0xf0 && lead <= 0xf4) return 3;
  return -1;
}

// The second byte's range is narrower behind four leads: over-long forms, surrogates and the end of Unicode.
bool valid_second(unsigned lead, unsigned second) {
  const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  return second >= low && second <= high;
}

bool ascii_word(const char* p) {
  std::uint64_t word;
  std::memcpy(&word, p, sizeof word);
  return (word & 0x8080808080808080U) == 0;
}

}  // namespace

bool valid_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned>(static_cast<unsigned char>(text[i])); };
  std::size_t at = 0;
  while (at < text.size()) {
    if (text.size() - at >= 8 && ascii_word(text.data() + at)) {
      at += 8;
      continue;
    }
    const int tail = tail_length(byte(at));
    if (tail < 0 || text.size() - at <= static_cast<std::size_t>(tail)) return false;
    if (tail > 0 && !valid_second(byte(at), byte(at + 1))) return false;
    for (int i = 2; i <= tail; ++i)
      if (byte(at + static_cast<std::size_t>(i)) >> 6U != 2) return false;
    at += static_cast<std::size_t>(tail) + 1;
  }
  return true;
}

}  // namespace cairn
