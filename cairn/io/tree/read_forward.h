// read_forward.h -- reads a long range of a file in a store from front to back, with several
// requests at once ahead of the reader.
#pragma once

#include <cairn/io/file.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace cairn::inline v0 {

// The bytes of one request of read_forward().
inline constexpr std::uint64_t kForwardPiece = std::uint64_t{4} << 20U;

struct ForwardRange {
  std::uint64_t offset = 0;  // in the file
  std::uint64_t length = 0;
  // How much of the range the reader is sure to need. What lies beyond is fetched as the reader
  // comes to it: one piece at first, then two, four and so on.
  std::uint64_t sure = 0;
  std::size_t window = 1;  // pieces that are held or fetched at once
};

// Returns a file in a store whose reads inside of the range are those of one reader that does not
// go back. They wait for pieces that own threads fetch meanwhile; `window` pieces are in memory at
// most. Other reads, and those that go back, are requests of their own. Not for several threads at
// once.
File read_forward(std::shared_ptr<const File> file, const ForwardRange& range);

}  // namespace cairn::inline v0
