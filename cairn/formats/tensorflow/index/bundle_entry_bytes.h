// bundle_entry_bytes.h -- entries of a TensorFlow checkpoint whose elements have no fixed size,
// read and checked: strings, and variants, of which nothing is read but whether they are sound.
#pragma once

#include <cairn/formats/raw/raw_read.h>
#include <cairn/formats/tensorflow/index/bundle_strings.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace cairn {

// As a stream it is what is stored. Safe to use from many threads.
class EntryStream : public SequentialBytes {
 public:
  // crc: of the entry, not masked.
  EntryStream(RawRun where, std::uint64_t count, std::uint32_t crc)
      : where_(where), count_(count), crc_(crc) {}
  [[nodiscard]] const RawRun& where() const { return where_; }
  void read(const std::vector<File>& files, std::uint64_t offset, MutableByteView out) const final;

 protected:
  // Looks at the bytes from the front on; begin() starts anew.
  virtual void begin(const File& file) const = 0;
  virtual void look(std::uint64_t offset, ByteView bytes) const = 0;
  virtual void end() const = 0;  // all have been looked at
  void check(std::uint32_t crc) const;
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  RawRun where_;
  std::uint64_t count_;
  std::uint32_t crc_;
  mutable std::mutex mutex_;
  mutable std::uint64_t at_ = 0;  // byte that comes next
};

class StringEntry final : public EntryStream {
 public:
  StringEntry(RawRun where, std::uint64_t count, bool big_endian, std::uint32_t crc)
      : EntryStream(where, count, crc), big_endian_(big_endian) {}
  // All of them, checked, in C order.
  [[nodiscard]] std::vector<std::string> strings(const std::vector<File>& files) const;

 private:
  void begin(const File& file) const override;
  void look(std::uint64_t offset, ByteView bytes) const override;
  void end() const override { check(running_); }
  [[nodiscard]] BundleStrings head(const File& file) const;

  bool big_endian_;
  mutable std::uint64_t start_ = 0;    // byte behind the head
  mutable std::uint32_t running_ = 0;  // crc32c of what was looked at
};

// Of each element: varint length | a message | u32 masked crc32c of all before, in which lengths
// count as a u64 and checksums as stored.
class VariantEntry final : public EntryStream {
 public:
  using EntryStream::EntryStream;

 private:
  void begin(const File& file) const override;
  void look(std::uint64_t offset, ByteView bytes) const override;
  void end() const override;

  enum class Part : std::uint8_t { kLength, kMessage, kChecksum };
  mutable Part part_ = Part::kLength;
  // of the message: what is known of it, then what is left of it
  mutable std::uint64_t length_ = 0;
  mutable unsigned used_ = 0;  // bytes of the length, or of the checksum
  mutable std::array<std::byte, 4> checksum_{};
  mutable std::uint64_t elements_ = 0;
  mutable std::uint32_t running_ = 0;  // crc32c of what was looked at
};

}  // namespace cairn
