// bundle_entry_bytes.h -- entries of a TensorFlow checkpoint whose elements have no fixed size:
// strings, which are read and checked, and variants, which are only checked.
#pragma once

#include <cairn/formats/raw/raw_read.h>
#include <cairn/formats/tensorflow/index/bundle_strings.h>

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace cairn::inline v0 {

// An entry as a stream of its stored bytes, checked while they are read. Safe to use from many
// threads.
class EntryStream : public SequentialBytes {
 public:
  // crc: the checksum of the entry, not masked.
  EntryStream(RawRun where, std::uint64_t count, std::uint32_t crc)
      : where_(where), count_(count), crc_(crc) {}
  // Where the stored bytes are.
  [[nodiscard]] const RawRun& where() const { return where_; }
  [[nodiscard]] std::uint64_t size() const final { return where_.length; }
  // Reads and checks stored bytes. A read that does not continue the one before restarts the check
  // from the front. Throws data_loss for damage.
  void read(const std::vector<File>& files, std::uint64_t offset, MutableByteView out) const final;

 protected:
  // A subclass checks the bytes from the front on. begin() restarts; look() gets the next bytes.
  virtual void begin(const File& file) const = 0;
  virtual void look(std::uint64_t offset, ByteView bytes) const = 0;
  virtual void end() const = 0;  // all bytes have been checked
  // Throws data_loss unless `crc` is the entry's checksum.
  void check(std::uint32_t crc) const;
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  RawRun where_;
  std::uint64_t count_;
  std::uint32_t crc_;
  mutable std::mutex mutex_;
  mutable std::uint64_t at_ = 0;  // the next byte
};

// A tensor of strings (drawn in bundle_strings.h).
class StringEntry final : public EntryStream {
 public:
  StringEntry(RawRun where, std::uint64_t count, bool big_endian, std::uint32_t crc)
      : EntryStream(where, count, crc), big_endian_(big_endian) {}
  // Reads and checks all strings; returns them in C order. Throws data_loss for damage.
  [[nodiscard]] std::vector<std::string> strings(const std::vector<File>& files) const;

 private:
  void begin(const File& file) const override;
  void look(std::uint64_t offset, ByteView bytes) const override;
  void end() const override { check(running_); }
  [[nodiscard]] BundleStrings head(const File& file) const;

  bool big_endian_;
  mutable std::uint64_t start_ = 0;    // the first byte after the head
  mutable std::uint32_t running_ = 0;  // crc32c of the bytes so far
};

// A tensor of variants. Each element is: varint length | a message | u32 masked crc32c of
// everything before. In that crc32c, lengths count as a u64 and checksums as stored.
class VariantEntry final : public EntryStream {
 public:
  using EntryStream::EntryStream;

 private:
  void begin(const File& file) const override;
  void look(std::uint64_t offset, ByteView bytes) const override;
  void end() const override;

  enum class Part : std::uint8_t { kLength, kMessage, kChecksum };
  mutable Part part_ = Part::kLength;
  // of the message: first the length as far as it is decoded, then the bytes that remain
  mutable std::uint64_t length_ = 0;
  mutable unsigned used_ = 0;  // bytes seen of the length or of the checksum
  mutable std::array<std::byte, 4> checksum_{};
  mutable std::uint64_t elements_ = 0;
  mutable std::uint32_t running_ = 0;  // crc32c of the bytes so far
};

}  // namespace cairn::inline v0
