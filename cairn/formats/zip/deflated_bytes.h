// deflated_bytes.h -- reads an array in a deflated zip member.
#pragma once

#include <cairn/codec/decompress.h>
#include <cairn/formats/raw/forward_input.h>
#include <cairn/formats/raw/raw_read.h>
#include <cairn/formats/zip/zip_directory.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace cairn::inline v0 {

// Decodes a member's content from the front. Counts the bytes and computes their CRC-32.
class DeflatedReader {
 public:
  // `read` must stay valid as long as this object lives.
  DeflatedReader(const ZipMember& member, ReadAtFn read,
                 InputAccess access = InputAccess::kAsNeeded);
  // The number of bytes decoded so far.
  [[nodiscard]] std::uint64_t position() const { return position_; }
  // Fills all of `out`. Throws data_loss for damage. At the end of the content this includes a
  // stream that continues and a checksum that does not match.
  void read(MutableByteView out);
  // Decodes up to `position` and drops the bytes. Throws as read() does.
  void skip_to(std::uint64_t position);
  // Call it when the next read may be far away in time: drops stored bytes that were read ahead.
  void pause();

 private:
  std::uint64_t size_;
  std::uint32_t wanted_crc_;
  std::shared_ptr<ForwardInput> input_;
  InflateStream stream_;
  std::uint64_t position_ = 0;
  std::uint32_t crc_ = 0;
};

// The array that begins `array_offset` bytes into the decoded content of a member. The archive is
// the first of the reader's files.
class DeflatedBytes final : public SequentialBytes {
 public:
  DeflatedBytes(const ZipMember& member, std::uint64_t array_offset)
      : member_(member), array_offset_(array_offset) {}
  [[nodiscard]] std::uint64_t size() const override { return member_.size - array_offset_; }
  void read(const std::vector<File>& files, std::uint64_t offset,
            MutableByteView out) const override;
  void check_whole(const std::vector<File>& files) const override;

 private:
  // A new reader at position 0.
  [[nodiscard]] std::unique_ptr<DeflatedReader> from_the_front(
      const std::vector<File>& files) const;
  // Returns the idle reader nearest before the position, or a new reader if there is none.
  std::unique_ptr<DeflatedReader> take(const std::vector<File>& files,
                                       std::uint64_t position) const;

  ZipMember member_;
  std::uint64_t array_offset_;
  mutable std::atomic<bool> checksum_ok_{false};  // the content was decoded to its end and matched
  mutable std::mutex mutex_;
  // readers between calls, in order of use, the latest last
  mutable std::vector<std::unique_ptr<DeflatedReader>> idle_;
};

}  // namespace cairn::inline v0
