// direct_file.h -- appending to a file past the page cache (O_DIRECT), for much data that shall be
// on disk soon. The page cache copies everything, page by page, and an fsync then waits for all of
// it; here the disk works from the first megabyte.
#pragma once

#include <cairn/bytes.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace cairn {

// Why a file's bytes go through the page cache; empty: they need not. `fd` is a regular file that
// is open.
std::string why_not_direct(int fd);

// For one thread at a time. Bytes gather in a few aligned buffers that a thread of its own writes
// (none before the first buffer is full); runs of the caller's that happen to be aligned go from
// where they are. The file system may refuse at any time: then the same bytes are written the
// ordinary way. Throws io.
class DirectAppender {
 public:
  static constexpr std::size_t kBuffer = std::size_t{2} << 20U;
  static constexpr std::size_t kBuffers = 3;

  // `fd`, a file of `size` bytes open for writing, stays the caller's and must outlive this. `path`
  // is for messages.
  DirectAppender(int fd, std::string path, std::uint64_t size);
  DirectAppender(const DirectAppender&) = delete;
  DirectAppender& operator=(const DirectAppender&) = delete;
  // Without finish(): the file holds some of the bytes.
  ~DirectAppender();

  void append(std::span<const ByteView> parts);
  [[nodiscard]] std::uint64_t size() const;
  // Writes what is left; all bytes are in the file then, but nothing is synced. Nothing can be
  // appended after it.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn
