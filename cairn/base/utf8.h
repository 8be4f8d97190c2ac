// utf8.h -- whether bytes are UTF-8 as the Unicode standard defines it: no over-long forms, no surrogates, at most U+10FFFF.
#pragma once

#include <string_view>

namespace cairn {

bool valid_utf8(std::string_view text);

}  // namespace cairn
