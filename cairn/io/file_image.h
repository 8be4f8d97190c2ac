// file_image.h -- presents the bytes of a file at memory addresses, like a mapping, but reads them
// with pread on demand. If another program truncates the file, the caller gets an Error; with a
// mapping, the access would kill the process. Holes of the file use no memory.
#pragma once

#include <cairn/bytes.h>
#include <cairn/io/file.h>

#include <cstdint>
#include <vector>

namespace cairn::inline v0 {

// An image of one open file. Use it from one thread at a time until everything needed is loaded.
class FileImage {
 public:
  // Reserves addresses for the whole file and reads nothing. The file must outlive all calls of
  // load() and load_all().
  explicit FileImage(const File& file);
  FileImage(const FileImage&) = delete;
  FileImage& operator=(const FileImage&) = delete;
  ~FileImage();

  // The bytes of the image. Bytes that are not loaded read as zeros.
  [[nodiscard]] ByteView bytes() const { return {data_, size_}; }
  // Loads this part of the image from the file. Throws as File::read_into does.
  void load(ByteView part);
  // Loads the whole image.
  void load_all();

 private:
  void read(std::uint64_t begin, std::uint64_t end);

  const File* file_;
  std::uint64_t block_;  // bytes
  std::byte* data_ = nullptr;
  std::uint64_t size_ = 0;
  std::vector<bool> loaded_;  // one flag per block
};

}  // namespace cairn::inline v0
