// lines.h -- the operands that pickles of protocol 0 write as text.
#pragma once

#include <cairn/formats/pytorch/pickle/builder.h>

#include <string>
#include <string_view>

namespace cairn::inline v0::pickle {

// All functions throw data_loss for text that Python does not write, and take it without its line
// feed.

// Of INT: decimal digits; "00" and "01" are False and True.
Value parse_int_line(PickleBuilder& builder, std::string_view line);
// Of LONG: decimal digits, with an 'L' at the end or without.
Value parse_long_line(PickleBuilder& builder, std::string_view line);
// Of FLOAT: what repr(float) writes.
Value parse_float_line(PickleBuilder& builder, std::string_view line);
// Of STRING: what repr(str) of Python 2 wrote, with its quotes. Returns its bytes.
std::string unquoted(std::string_view line);
// Of UNICODE: Latin-1 with \uXXXX and \UXXXXXXXX. Returns UTF-8.
std::string without_unicode_escapes(std::string_view line);
// Of GET and PUT: the number of a memo.
std::uint64_t parse_memo_line(std::string_view line);

// Whether text is UTF-8 as Python writes it: surrogates are allowed.
bool is_python_utf8(std::string_view text);

}  // namespace cairn::inline v0::pickle
