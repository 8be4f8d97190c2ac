// bundle_string_bytes.h -- the entry of a tensor of strings, read and checked.
#pragma once

#include <cairn/formats/bundle_strings.h>
#include <cairn/formats/raw_read.h>

#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace cairn {

// As a stream it is what is stored, from the first length to the last string. Safe to use from many threads.
class StringEntry final : public SequentialBytes {
 public:
  // crc: of the entry, not masked.
  StringEntry(RawRun where, std::uint64_t count, bool big_endian, std::uint32_t crc)
      : where_(where), count_(count), big_endian_(big_endian), crc_(crc) {}
  [[nodiscard]] const RawRun& where() const { return where_; }
  void read(const std::vector<File>& files, std::uint64_t offset, MutableByteView out) const override;
  // All of them, checked, in C order.
  [[nodiscard]] std::vector<std::string> strings(const std::vector<File>& files) const;

 private:
  [[nodiscard]] BundleStrings head(const File& file) const;
  void check(std::uint32_t crc) const;

  RawRun where_;
  std::uint64_t count_;
  bool big_endian_;
  std::uint32_t crc_;
  // Of the stream.
  mutable std::mutex mutex_;
  mutable std::uint64_t at_ = 0;     // byte that comes next
  mutable std::uint64_t start_ = 0;  // byte behind the head
  mutable std::uint32_t running_ = 0;
};

}  // namespace cairn
