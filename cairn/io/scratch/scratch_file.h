// scratch_file.h -- a file without a name, for data that does not fit the memory. The system frees
// its space when the object is destroyed, and also if the process is killed.
#pragma once

#include <cairn/bytes.h>

#include <cstdint>
#include <string>

namespace cairn::inline v0 {

class ScratchFile {
 public:
  // Creates it in `folder`, or in the nearest folder above that exists. Throws io.
  explicit ScratchFile(std::string folder);
  ScratchFile(const ScratchFile&) = delete;
  ScratchFile& operator=(const ScratchFile&) = delete;
  ~ScratchFile();

  // Bytes that a user without privileges can still write to its file system.
  [[nodiscard]] std::uint64_t free_space() const;
  // Both are positioned: many threads may share the file. Bytes that were never written read as
  // zeros if they lie before others. They throw io, also where the file ends too early.
  void write_at(std::uint64_t offset, ByteView bytes);
  void read_at(std::uint64_t offset, MutableByteView out) const;

 private:
  std::string folder_;
  int fd_ = -1;
};

}  // namespace cairn::inline v0
