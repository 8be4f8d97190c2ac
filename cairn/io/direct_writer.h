// direct_writer.h -- writing at places of a file past the page cache (O_DIRECT), for large files
// that shall be on disk soon. What of the bytes lies in memory as it will lie in the file goes to
// the disk from where it is, the rest the ordinary way.
#pragma once

#include <cairn/bytes.h>
#include <cairn/io/file.h>

#include <atomic>
#include <cstdint>

namespace cairn {

// From several threads at once. The file system may refuse at any time: then the same bytes are
// written the ordinary way.
class DirectWriter {
 public:
  // Bytes go past the page cache whose address leaves the same remainder by this as their place in
  // the file; none where pages are larger.
  static constexpr std::size_t kBlock = 4096;

  // The file must outlive this, and be finished after it. `size`: what the file will have at least;
  // the space is taken now. Throws io, as for a disk that has not that much left.
  DirectWriter(AtomicFile& file, std::uint64_t size);
  DirectWriter(const DirectWriter&) = delete;
  DirectWriter& operator=(const DirectWriter&) = delete;
  ~DirectWriter();

  // Throws io. The file's size() need not count these bytes.
  void write_at(std::uint64_t offset, ByteView bytes);

 private:
  AtomicFile& file_;
  int fd_ = -1;  // the file a second time, with O_DIRECT
  std::atomic<bool> direct_{false};
};

}  // namespace cairn
