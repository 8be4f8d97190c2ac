// page_text.cc -- makes texts safe and short, and numbers short.
#include <cairn/tools/page/page_text.h>

#include <cairn/inspect.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

namespace cairn::inline v0::page {
namespace {

constexpr std::size_t kMostBytes = 500;  // of a text
constexpr double kExactBelow = 1e9;      // whole numbers below keep all digits

bool is_inside_character(char byte) { return (static_cast<unsigned char>(byte) & 0xc0U) == 0x80; }

}  // namespace

Json shown_text(std::string_view text) {
  // The escaped text is not shorter than the text.
  std::string shown = printable_text(text.substr(0, 2 * kMostBytes));
  if (text.size() <= 2 * kMostBytes && shown.size() <= kMostBytes) return shown;
  std::size_t end = std::min(kMostBytes, shown.size());
  while (end > 0 && end < shown.size() && is_inside_character(shown[end])) --end;
  shown.resize(end);
  return shown + fmt::format("... (a text of {} bytes)", text.size());
}

Json rounded(std::optional<double> value) {
  if (!value || !std::isfinite(*value)) return {};
  if (*value == std::trunc(*value) && std::abs(*value) < kExactBelow)
    return static_cast<std::int64_t>(*value);
  const std::string text = fmt::format("{:.4e}", *value);
  double number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);  // not of the locale
  return number;
}

std::string escape_for_html(std::string_view json) {
  constexpr std::string_view kLineSeparator = "\xe2\x80\xa8", kParagraphSeparator = "\xe2\x80\xa9";
  std::string out;
  out.reserve(json.size() + json.size() / 64);
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (c == '<' || c == '>' || c == '&') {
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(c));
    } else if (json.substr(i, 3) == kLineSeparator || json.substr(i, 3) == kParagraphSeparator) {
      out += json[i + 2] == kLineSeparator[2] ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace cairn::inline v0::page
