// range.h -- what every store does around a read: checks the key, the byte range and the size
// limit, and copies bytes to where they belong.
#pragma once

#include <cairn/storage/kvstore.h>

#include <string>

namespace cairn::inline v0 {

// Returns the number of bytes that `range` selects from a value of `size` bytes. Throws
// out_of_range unless the range lies inside the value.
inline std::uint64_t length_in(const ByteRange& range, std::uint64_t size) {
  const std::uint64_t room = range.offset <= size ? size - range.offset : 0;
  const std::uint64_t length = range.length.value_or(room);
  if (range.offset > size || length > room)
    throw Error(Code::kOutOfRange, std::to_string(length) + " bytes at " +
                                       std::to_string(range.offset) + " are outside a value of " +
                                       std::to_string(size) + " bytes");
  return length;
}

// Throws data_loss if the value is larger than `most` bytes; for read_at_most.
inline void check_at_most(std::uint64_t size, std::uint64_t most) {
  if (size > most)
    throw Error(Code::kDataLoss, std::to_string(size) + " bytes are stored, at most " +
                                     std::to_string(most) + " are expected");
}

// Copies bytes to several destinations in sequence. Those for a part without data() are skipped.
void scatter(ByteView bytes, std::span<const MutableByteView> out);

// Throws invalid_argument if the key is empty.
inline void check_not_empty(std::string_view key) {
  if (key.empty()) throw Error(Code::kInvalidArgument, "the key is empty");
}

}  // namespace cairn::inline v0
