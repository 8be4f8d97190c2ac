// strings_message.h -- the strings of one leaf as bytes: for each its length (u32) and its bytes.
#pragma once

#include <cairn/base/byte_io.h>
#include <cairn/bytes.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::inline v0 {

inline Bytes strings_message(std::span<const std::string_view> strings) {
  ByteWriter message;
  for (const std::string_view text : strings)
    message.u32(static_cast<std::uint32_t>(text.size())).text(text);
  return std::move(message).take();
}

inline std::vector<std::string> strings_of_message(ByteView message) {
  std::vector<std::string> strings;
  for (ByteReader in(message); !in.at_end();) strings.emplace_back(in.text(in.u32()));
  return strings;
}

}  // namespace cairn::inline v0
