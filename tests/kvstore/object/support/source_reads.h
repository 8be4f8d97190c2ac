// source_reads.h -- text to store, and reads of a part of it.
#pragma once

#include <cairn/io/tree/range_source.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace cairn::object::testing {

// Bytes that differ from their neighbours and from those of the block before.
inline std::string numbered_text(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 7 + i / 256);
  return text;
}

inline std::string read_part(const RangeSource& source, std::uint64_t offset, std::size_t length) {
  std::string out(length, '-');
  source.read_into(offset, std::as_writable_bytes(std::span(out)));
  return out;
}

}  // namespace cairn::object::testing
