// proto_text.h -- checks the syntax of a protocol buffer in text format. Without the message type,
// which only the program that saved the item has, nobody can tell whether the fields are right. But
// a text that has lost its end, a quote or a brace, or whose bytes are not UTF-8, is not one.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::inline v0::orbax {

// The first place at which a text breaks the grammar.
struct ProtoTextFault {
  std::size_t offset = 0;  // in bytes
  std::string message;
};

// Returns nullopt if some message type could have this text. The grammar is that of Python's
// google.protobuf.text_format, which Orbax restores with: messages in {} or <>, lists, strings with
// escapes, numbers, names of enum values, extensions and Any in [], and comments. Uses memory for
// the depth of the text only.
std::optional<ProtoTextFault> find_proto_text_fault(std::string_view text);

}  // namespace cairn::inline v0::orbax
