// text.cc -- formats stored names and shardings for display.
#include <cairn/inspect.h>

#include <cairn/base/visible_text.h>
#include <cairn/orbax/sharding.h>

namespace cairn::inline v0 {

std::string printable_text(std::string_view text) { return visible_text(text); }

std::string printable_json(std::string_view json) {
  return escape_unseen(json, [](std::string& out, const Utf8Character& c) {
    if (c.code == '\n') {
      out += '\n';
    } else if (!c.valid) {
      // JSON cannot hold such bytes, so write the escape as text
      append_hex(out, "\\\\x", c.code, 2);
    } else if (c.code < 0x10000) {
      append_hex(out, "\\u", c.code, 4);
    } else {
      append_hex(out, "\\u", 0xd800U + ((c.code - 0x10000U) >> 10U), 4);
      append_hex(out, "\\u", 0xdc00U + ((c.code - 0x10000U) & 0x3ffU), 4);
    }
  });
}

std::string strings_text(std::span<const std::string> strings, std::size_t most) {
  std::string out = "[";
  for (std::size_t i = 0; i < strings.size() && i < most; ++i) {
    std::string quoted = printable_text(strings[i]);
    for (std::size_t at = 0; (at = quoted.find('\'', at)) != std::string::npos; at += 2)
      quoted.insert(at, 1, '\\');
    out.append(i > 0 ? ",\n '" : "'").append(quoted).append("'");
  }
  if (strings.size() > most)
    out += ",\n ... and " + std::to_string(strings.size() - most) + " more";
  return out + "]";
}

std::string sharding_text(std::string_view json) {
  if (json.empty()) return "";
  const auto parsed = try_call([&] { return parse_sharding(json); });
  return printable_text(parsed ? sharding_text(parsed.value()) : json);
}

}  // namespace cairn::inline v0
