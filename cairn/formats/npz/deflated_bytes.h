// deflated_bytes.h -- an array in a deflated zip member.
#pragma once

#include <cairn/codec/decompress.h>
#include <cairn/formats/npz/zip_directory.h>
#include <cairn/formats/raw/raw_read.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace cairn {

// A member's decoded content from the front, counting and checksumming as it goes.
class DeflatedReader {
 public:
  // `read` must stay valid as long as this lives.
  DeflatedReader(const ZipMember& member, ReadAtFn read);
  [[nodiscard]] std::uint64_t position() const { return position_; }
  // Fills all of `out`. data_loss for damage; at the content's end also if the stream goes on, or
  // the checksum does not fit.
  void read(MutableByteView out);
  void skip_to(std::uint64_t position);

 private:
  std::uint64_t size_;
  std::uint32_t wanted_crc_;
  InflateStream stream_;
  std::uint64_t position_ = 0;
  std::uint32_t crc_ = 0;
};

// The array behind the first `array_offset` bytes of the content of a member of the reader's first
// file.
class DeflatedBytes final : public SequentialBytes {
 public:
  DeflatedBytes(const ZipMember& member, std::uint64_t array_offset)
      : member_(member), array_offset_(array_offset) {}
  void read(const std::vector<File>& files, std::uint64_t offset,
            MutableByteView out) const override;
  void check_whole(const std::vector<File>& files) const override;

 private:
  [[nodiscard]] std::unique_ptr<DeflatedReader> from_the_front(
      const std::vector<File>& files) const;
  // The one that is least far before the position; a new one if there is none.
  std::unique_ptr<DeflatedReader> take(const std::vector<File>& files,
                                       std::uint64_t position) const;

  ZipMember member_;
  std::uint64_t array_offset_;
  mutable std::atomic<bool> checksum_ok_{false};  // it has been decoded to its end
  mutable std::mutex mutex_;
  // between calls; the last one was used last
  mutable std::vector<std::unique_ptr<DeflatedReader>> idle_;
};

}  // namespace cairn
