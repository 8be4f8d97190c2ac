// text.h -- checks the characters of names.
#pragma once

#include <string_view>

namespace cairn::inline v0 {

inline constexpr std::string_view kDecimalDigits = "0123456789";
inline constexpr std::string_view kHexDigits = "0123456789abcdef";

// Returns true if `text` is not empty and contains only characters of `characters`.
inline bool consists_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

}  // namespace cairn::inline v0
