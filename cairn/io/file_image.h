// file_image.h -- the bytes of a file at addresses, as a mapping has them, but read with pread
// where they are wanted: a file that another program cuts short is an Error, where looking at a
// mapping would kill the process. Holes of the file take no memory.
#pragma once

#include <cairn/bytes.h>
#include <cairn/io/file.h>

#include <cstdint>
#include <vector>

namespace cairn {

// For one thread at a time, as long as something is still to be loaded.
class FileImage {
 public:
  // Reserves addresses for all of the file, and reads nothing. The file must outlive the calls of
  // load() and load_all().
  explicit FileImage(const File& file);
  FileImage(const FileImage&) = delete;
  FileImage& operator=(const FileImage&) = delete;
  ~FileImage();

  // What was not loaded reads as zeros.
  [[nodiscard]] ByteView bytes() const { return {data_, size_}; }
  // Makes sure that these bytes of the image are those of the file. Throws as File::read_into.
  void load(ByteView part);
  // The same for everything.
  void load_all();

 private:
  void read(std::uint64_t begin, std::uint64_t end);

  const File* file_;
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  std::vector<bool> loaded_;  // by block
};

}  // namespace cairn
