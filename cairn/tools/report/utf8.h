// utf8.h -- decodes a UTF-8 string one character at a time. Each invalid byte is returned alone and
// marked.
#pragma once

#include <cstdint>
#include <string_view>

namespace cairn::inline v0 {

// One character, or one invalid byte.
struct CodePoint {
  std::uint32_t value = 0;
  std::size_t size = 1;  // bytes
  bool valid = true;     // false: one byte that is not UTF-8
};

// Decodes the character that starts at text[at]; `at` must be inside the string. Over-long forms
// and surrogates are invalid.
inline CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const std::size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  const CodePoint broken{lead, 1, false};
  if (lead < 0xc2 || lead > 0xf4 || text.size() - at < size) return broken;
  std::uint32_t value = lead & (0x7fU >> size);
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80U) return broken;
    value = value << 6U | (byte(i) & 0x3fU);
  }
  const std::uint32_t least = size == 2 ? 0x80 : size == 3 ? 0x800 : 0x10000;
  if (value < least || value > 0x10ffff || (value >= 0xd800 && value < 0xe000)) return broken;
  return {value, size, true};
}

}  // namespace cairn::inline v0
