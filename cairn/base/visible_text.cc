// visible_text.cc -- the characters that cannot be seen, and their escapes.
#include <cairn/base/visible_text.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace cairn::inline v0 {
namespace {

struct CodeRange {
  std::uint32_t first, last;
};
// Characters that are not visible: controls; line and paragraph separators; interlinear
// annotations; and Unicode's Default_Ignorable_Code_Point (bidirectional marks, zero-width
// characters, tags, variation selectors).
constexpr std::array<CodeRange, 19> kUnseen = {{{0x0, 0x1f},
                                                {0x7f, 0x9f},
                                                {0xad, 0xad},
                                                {0x34f, 0x34f},
                                                {0x61c, 0x61c},
                                                {0x115f, 0x1160},
                                                {0x17b4, 0x17b5},
                                                {0x180b, 0x180f},
                                                {0x200b, 0x200f},
                                                {0x2028, 0x202e},
                                                {0x2060, 0x206f},
                                                {0x3164, 0x3164},
                                                {0xfe00, 0xfe0f},
                                                {0xfeff, 0xfeff},
                                                {0xffa0, 0xffa0},
                                                {0xfff0, 0xfffb},
                                                {0x1bca0, 0x1bca3},
                                                {0x1d173, 0x1d17a},
                                                {0xe0000, 0xe0fff}}};

bool is_unseen(std::uint32_t code) {
  if (code > 0x1f && code < 0x7f) return false;  // nearly all text
  return std::any_of(kUnseen.begin(), kUnseen.end(),
                     [&](CodeRange r) { return code >= r.first && code <= r.last; });
}

}  // namespace

void append_hex(std::string& out, std::string_view prefix, std::uint32_t value, int digits) {
  out.append(prefix);
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
    out.push_back("0123456789abcdef"[(value >> static_cast<unsigned>(shift)) & 15U]);
}

std::string escape_unseen(std::string_view text,
                          const std::function<void(std::string&, const Utf8Character&)>& escape) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const Utf8Character c = decode_utf8(text.substr(i));
    if (c.valid && !is_unseen(c.code))
      out.append(text.substr(i, c.length));
    else
      escape(out, c);
    i += c.length;
  }
  return out;
}

std::string visible_text(std::string_view text) {
  return escape_unseen(text, [](std::string& out, const Utf8Character& c) {
    if (!c.valid || c.code < 0x80)
      append_hex(out, "\\x", c.code, 2);
    else if (c.code < 0x10000)
      append_hex(out, "\\u", c.code, 4);
    else
      append_hex(out, "\\U", c.code, 8);
  });
}

}  // namespace cairn::inline v0
