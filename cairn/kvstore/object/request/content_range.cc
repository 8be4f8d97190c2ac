// content_range.cc -- parses Content-Range.
#include <cairn/kvstore/object/request/content_range.h>

#include <cairn/base/text.h>

#include <charconv>

namespace cairn::inline v0::object {

std::optional<std::uint64_t> parse_size(std::string_view text) {
  if (!consists_of(text, kDecimalDigits)) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return static_cast<std::uint64_t>(value);
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const std::size_t slash = text.find('/');
  if (!text.starts_with(kUnit) || slash == std::string_view::npos) return std::nullopt;
  const std::string_view part = text.substr(kUnit.size(), slash - kUnit.size());
  const std::string_view total = text.substr(slash + 1);
  ContentRange range;
  range.total = parse_size(total);
  if (!range.total && total != "*") return std::nullopt;
  if (part == "*") return range.total ? std::optional(range) : std::nullopt;
  const std::size_t dash = part.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first = parse_size(part.substr(0, dash)), last = parse_size(part.substr(dash + 1));
  if (!first || !last || *last < *first) return std::nullopt;
  if (range.total && *last >= *range.total) return std::nullopt;
  range.first = *first;
  range.length = *last - *first + 1;
  return range;
}

}  // namespace cairn::inline v0::object
