// range.h -- what every store checks before it reads: the key's form and the range's place in the
// value.
#pragma once

#include <cairn/kvstore.h>

#include <string>

namespace cairn {

// Bytes that `range` selects of a value of `size` bytes; out_of_range unless it lies inside.
inline std::uint64_t length_in(const ByteRange& range, std::uint64_t size) {
  const std::uint64_t room = range.offset <= size ? size - range.offset : 0;
  const std::uint64_t length = range.length.value_or(room);
  if (range.offset > size || length > room)
    throw Error(Code::kOutOfRange, std::to_string(length) + " bytes at " +
                                       std::to_string(range.offset) + " are wanted of a value of " +
                                       std::to_string(size) + " bytes");
  return length;
}

// What read_at_most refuses.
inline void check_at_most(std::uint64_t size, std::uint64_t most) {
  if (size > most)
    throw Error(Code::kDataLoss, std::to_string(size) + " bytes are stored, at most " +
                                     std::to_string(most) + " are expected");
}

inline void check_not_empty(std::string_view key) {
  if (key.empty()) throw Error(Code::kInvalidArgument, "the key is empty");
}

}  // namespace cairn
