// content_range.h -- the header that says which part of an object an answer holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn::inline v0::object {

// "bytes 0-9/100", "bytes 0-9/*", or "bytes */100" of an answer that refuses a range.
struct ContentRange {
  std::uint64_t first = 0;
  std::uint64_t length = 0;            // 0: the range was refused
  std::optional<std::uint64_t> total;  // size of the object; nullopt: not known
};

// nullopt for anything else, also for a part that ends before it begins or beyond the total.
std::optional<ContentRange> parse_content_range(std::string_view text);
// A decimal number of at most 2^63 - 1, and nothing else.
std::optional<std::uint64_t> parse_size(std::string_view text);

}  // namespace cairn::inline v0::object
