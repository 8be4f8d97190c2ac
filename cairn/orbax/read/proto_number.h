// proto_number.h -- the numbers of protocol buffers in text format, as Python's text_format reads
// them.
#pragma once

#include <string_view>

namespace cairn::inline v0::orbax {

// Whether a token is an integer of 64 bits (decimal, 0x, 0o, 0b or C's octal) or a floating-point
// number, which may end with f.
bool is_proto_number(std::string_view token);

}  // namespace cairn::inline v0::orbax
