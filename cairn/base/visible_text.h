// visible_text.h -- escapes the characters of a text that cannot be seen.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include <cairn/base/utf8.h>

namespace cairn::inline v0 {

// Copies the visible characters of the text, and passes the others to `escape`, together with the
// result so far: controls, characters that show nothing or change the order of others, and bytes
// that are not UTF-8.
std::string escape_unseen(std::string_view text,
                          const std::function<void(std::string&, const Utf8Character&)>& escape);
// Appends a prefix and the value as `digits` hexadecimal digits.
void append_hex(std::string& out, std::string_view prefix, std::uint32_t value, int digits);
// The text on one line: the other characters become \xNN, \uNNNN or \UNNNNNNNN. This is the form in
// which every name is shown; the form of the result is the result itself.
std::string visible_text(std::string_view text);

}  // namespace cairn::inline v0
