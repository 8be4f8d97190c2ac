// direct_file.h -- appends to a file without the page cache (O_DIRECT), for large data that must
// reach the disk soon. The page cache copies all data page by page, and an fsync then waits for all
// of it. With O_DIRECT the disk works from the first megabyte.
#pragma once

#include <cairn/bytes.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace cairn::inline v0 {

// Returns the reason why a file's bytes must go through the page cache, or "" if O_DIRECT works.
// `fd` is an open regular file.
std::string why_not_direct(int fd);

// Appends bytes to one file. Use it from one thread at a time. The bytes collect in a few aligned
// buffers, which a background thread writes; the thread starts when the first buffer is full.
// Aligned parts of the caller's data are written directly from the caller's memory. The file system
// may reject O_DIRECT at any time; the appender then writes the same bytes through the page cache.
// Throws io.
class DirectAppender {
 public:
  static constexpr std::size_t kBuffer = std::size_t{2} << 20U;
  static constexpr std::size_t kBuffers = 3;

  // `fd` is a file of `size` bytes, open for writing. The caller keeps ownership; `fd` must outlive
  // this object. `path` is for messages.
  DirectAppender(int fd, std::string path, std::uint64_t size);
  DirectAppender(const DirectAppender&) = delete;
  DirectAppender& operator=(const DirectAppender&) = delete;
  // Without finish(), the file contains only some of the bytes.
  ~DirectAppender();

  // Appends the parts in order.
  void append(std::span<const ByteView> parts);
  // The size of the file including all appended bytes.
  [[nodiscard]] std::uint64_t size() const;
  // Writes the remaining bytes. After it returns, all bytes are in the file, but nothing is synced,
  // and no more bytes can be appended.
  void finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace cairn::inline v0
