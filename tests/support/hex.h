// hex.h -- bytes as hexadecimal text.
#pragma once

#include <cairn/types.h>

#include <string>
#include <string_view>

namespace cairn::testing {

inline std::string to_hex(ByteView bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte b : bytes) {
    text += kDigits[static_cast<std::size_t>(b) >> 4U];
    text += kDigits[static_cast<std::size_t>(b) & 15U];
  }
  return text;
}

}  // namespace cairn::testing
