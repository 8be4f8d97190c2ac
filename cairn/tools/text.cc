// text.cc -- stored names and shardings as text for people.
#include <cairn/tools.h>

#include <cairn/sharding.h>
#include <cairn/tools/utf8.h>

namespace cairn {

std::string printable(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const CodePoint c = code_point_at(text, i);
    // C1 controls drive terminals too, and the bidirectional marks can make one name look like another.
    const bool control = c.value < 0x20 || (c.value >= 0x7f && c.value < 0xa0) || (c.value >= 0x202a && c.value <= 0x202e) ||
                         (c.value >= 0x2066 && c.value <= 0x2069);
    if (c.valid && !control) {
      out.append(text.substr(i, c.size));
    } else {
      for (const char b : text.substr(i, c.size)) {
        const auto byte = static_cast<unsigned char>(b);
        out.append("\\x").push_back(kHex[byte >> 4U]);
        out.push_back(kHex[byte & 15U]);
      }
    }
    i += c.size;
  }
  return out;
}

std::string strings_text(std::span<const std::string> strings, std::size_t most) {
  std::string out = "[";
  for (std::size_t i = 0; i < strings.size() && i < most; ++i) {
    std::string quoted = printable(strings[i]);
    for (std::size_t at = 0; (at = quoted.find('\'', at)) != std::string::npos; at += 2) quoted.insert(at, 1, '\\');
    out.append(i > 0 ? ",\n '" : "'").append(quoted).append("'");
  }
  if (strings.size() > most) out += ",\n ... and " + std::to_string(strings.size() - most) + " more";
  return out + "]";
}

std::string sharding_text(std::string_view json) {
  if (json.empty()) return "";
  const auto parsed = try_call([&] { return parse_sharding(json); });
  return printable(parsed ? sharding_text(parsed.value()) : json);
}

}  // namespace cairn
