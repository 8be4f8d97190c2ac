// hex.h -- bytes as hexadecimal text. Tests compile without optimisation, and some of these texts
// are megabytes long: so these loops call nothing.
#pragma once

#include <cairn/bytes.h>
#include <cairn/types.h>

#include <string>
#include <string_view>

namespace cairn::testing {

inline std::string to_hex(ByteView bytes) {
  const char* digits = "0123456789abcdef";
  std::string text(2 * bytes.size(), '\0');
  const std::byte* in = bytes.data();
  char* out = text.data();
  for (const std::byte* end = in + bytes.size(); in != end; ++in) {
    *out++ = digits[static_cast<unsigned>(*in) >> 4U];
    *out++ = digits[static_cast<unsigned>(*in) & 15U];
  }
  return text;
}

// Of what consists of hexadecimal digits; the letters have the low bits 1 to 6, and bit 6.
inline Bytes from_hex(std::string_view hex) {
  Bytes bytes(hex.size() / 2);
  const char* in = hex.data();
  for (std::byte *out = bytes.data(), *end = out + bytes.size(); out != end; ++out, in += 2) {
    const unsigned high = (in[0] & 15U) + (in[0] >> 6U) * 9U;
    const unsigned low = (in[1] & 15U) + (in[1] >> 6U) * 9U;
    *out = static_cast<std::byte>(high << 4U | low);
  }
  return bytes;
}

inline std::string text_from_hex(std::string_view hex) {
  return std::string(as_text(from_hex(hex)));
}

}  // namespace cairn::testing
