// utf8.h -- decodes, validates and appends UTF-8 as the Unicode standard defines it: no over-long
// forms, no surrogates, at most U+10FFFF.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// One character, or one byte that is not valid UTF-8.
struct Utf8Character {
  std::uint32_t code = 0;  // the code point, or the invalid byte
  std::size_t length = 1;  // bytes
  bool valid = true;
};

// Decodes the first character of `text`, which must not be empty.
inline Utf8Character decode_utf8(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(text[i]));
  };
  const std::uint32_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const Utf8Character invalid{lead, 1, false};
  const std::size_t length = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : 2;
  if (lead < 0xc2 || lead > 0xf4 || text.size() < length) return invalid;
  std::uint32_t code = lead & (0x7fU >> length);
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return invalid;
    code = code << 6U | (byte(i) & 0x3fU);
  }
  constexpr std::uint32_t kSmallest[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = code >= 0xd800 && code < 0xe000;
  if (code < kSmallest[length] || code > 0x10ffff || surrogate) return invalid;
  return {code, length, true};
}

// Returns the offset of the first byte that is not valid UTF-8, or the size of the text if all of
// it is valid.
inline std::size_t find_invalid_utf8(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    std::uint64_t eight = 0;  // Nearly all text is ASCII: check eight characters at a time.
    for (; text.size() - at >= sizeof(eight); at += sizeof(eight)) {
      std::memcpy(&eight, &text[at], sizeof(eight));
      if ((eight & 0x8080808080808080U) != 0) break;
    }
    if (at == text.size()) break;
    const Utf8Character c = decode_utf8(text.substr(at));
    if (!c.valid) return at;
    at += c.length;
  }
  return at;
}

inline bool valid_utf8(std::string_view text) { return find_invalid_utf8(text) == text.size(); }

// Appends the UTF-8 encoding of a code point.
inline void append_utf8(std::string& out, std::uint32_t code) {
  if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xc0U | (code >> 6U));
    out += static_cast<char>(0x80U | (code & 0x3fU));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xe0U | (code >> 12U));
    out += static_cast<char>(0x80U | ((code >> 6U) & 0x3fU));
    out += static_cast<char>(0x80U | (code & 0x3fU));
  } else {
    out += static_cast<char>(0xf0U | (code >> 18U));
    out += static_cast<char>(0x80U | ((code >> 12U) & 0x3fU));
    out += static_cast<char>(0x80U | ((code >> 6U) & 0x3fU));
    out += static_cast<char>(0x80U | (code & 0x3fU));
  }
}

}  // namespace cairn::inline v0
