// direct_writer.h -- writes at arbitrary positions of a file without the page cache (O_DIRECT), for
// large files that must reach the disk soon. Bytes with the same alignment in memory as in the file
// are written directly from memory; all other bytes go through the page cache.
#pragma once

#include <cairn/bytes.h>
#include <cairn/io/atomic_file.h>
#include <cairn/io/file.h>

#include <atomic>
#include <cstdint>

namespace cairn::inline v0 {

// Several threads may use one writer at once. The file system may reject O_DIRECT at any time; the
// writer then writes the same bytes through the page cache.
class DirectWriter {
 public:
  // The alignment in bytes. Bytes are written directly if their address and their file offset leave
  // the same remainder modulo kBlock. On systems with larger pages no bytes are written directly.
  static constexpr std::size_t kBlock = 4096;

  // The file must outlive this object and must be finished after it. `size` is the minimum final
  // size of the file; the space is allocated now. Throws io, for example if the disk does not have
  // that much space left.
  DirectWriter(AtomicFile& file, std::uint64_t size);
  DirectWriter(const DirectWriter&) = delete;
  DirectWriter& operator=(const DirectWriter&) = delete;
  ~DirectWriter();

  // Writes at an absolute position. Throws io. The file's size() need not count these bytes.
  void write_at(std::uint64_t offset, ByteView bytes);

 private:
  AtomicFile& file_;
  int fd_ = -1;  // a second descriptor of the file, with O_DIRECT
  std::atomic<bool> direct_{false};
};

}  // namespace cairn::inline v0
