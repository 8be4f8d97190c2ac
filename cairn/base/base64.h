// base64.h -- base64 (RFC 4648): three bytes become four characters of an alphabet.
#pragma once

#include <cairn/bytes.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0 {

// The alphabets differ in their last two characters: "+/" and "-_".
enum class Base64 : std::uint8_t { kStandard, kUrlSafe };

// Encodes with padding.
inline std::string encode_base64(ByteView bytes, Base64 alphabet) {
  const std::string_view digits =
      alphabet == Base64::kUrlSafe
          ? "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
          : "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    std::uint32_t bits = 0;
    for (std::size_t k = 0; k < 3; ++k)
      bits = bits << 8U | (k < count ? std::to_integer<unsigned>(bytes[i + k]) : 0U);
    for (std::size_t k = 0; k < 4; ++k)
      out += k <= count ? digits[bits >> (18 - 6 * k) & 0x3fU] : '=';
  }
  return out;
}

// The value of a character of the alphabet, or -1.
inline int base64_value(char c, Base64 alphabet) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  if (c >= '0' && c <= '9') return c - '0' + 52;
  if (c == (alphabet == Base64::kUrlSafe ? '-' : '+')) return 62;
  if (c == (alphabet == Base64::kUrlSafe ? '_' : '/')) return 63;
  return -1;
}

// Decodes text without its padding; the caller checks how much of that there was. Bits behind the
// last whole byte do not count. nullopt for a character that is not in the alphabet, and for a
// single character behind the groups of four, which does not make a byte.
inline std::optional<Bytes> decode_base64(std::string_view unpadded, Base64 alphabet) {
  if (unpadded.size() % 4 == 1) return std::nullopt;
  Bytes out;
  std::uint32_t bits = 0;
  unsigned count = 0;
  for (const char c : unpadded) {
    const int value = base64_value(c, alphabet);
    if (value < 0) return std::nullopt;
    bits = (bits << 6U) | static_cast<std::uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    out.push_back(static_cast<std::byte>((bits >> count) & 0xffU));
  }
  return out;
}

}  // namespace cairn::inline v0
