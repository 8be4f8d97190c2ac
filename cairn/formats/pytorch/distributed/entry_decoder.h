// entry_decoder.h -- decodes an entry that was transformed (compressed) when it was saved, from the
// front, in bounded memory.
#pragma once

#include <cairn/formats/pytorch/distributed/saved_metadata.h>
#include <cairn/formats/raw/forward_input.h>
#include <cairn/io/file.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace cairn::inline v0::pytorch {

class EntryDecoder {
 public:
  // `file` is that of the entry, and must outlive the decoder. Throws as undo_transforms().
  EntryDecoder(const File& file, const Entry& entry);
  // The number of bytes decoded so far.
  [[nodiscard]] std::uint64_t position() const { return position_; }
  // Fills the beginning of `out` and returns the number of bytes, which is smaller only at the end.
  // Throws data_loss for damage.
  std::size_t read(MutableByteView out);
  // Fills all of `out`. Throws data_loss also if the bytes end before.
  void read_all(MutableByteView out);
  // Decodes up to `position` and drops the bytes. Throws as read_all().
  void skip_to(std::uint64_t position);
  // Computes the CRC-32 of the bytes from here on.
  void begin_crc() { crc_ = 0; }
  [[nodiscard]] std::uint32_t crc() const { return crc_; }
  // Call it when the next read may be far away in time.
  void pause() { input_->pause(); }
  // Returns about the most memory that decoding takes.
  [[nodiscard]] std::uint64_t memory() const;

 private:
  std::shared_ptr<ForwardInput> input_;
  std::vector<std::shared_ptr<ByteStream>> streams_;  // the last one has what was saved
  std::uint64_t position_ = 0;
  std::uint32_t crc_ = 0;
};

// Decoders between two reads. All entries of a checkpoint share a pool, because each decoder holds
// some megabytes. Safe to use from many threads.
class DecoderPool {
 public:
  // Takes the decoder of `owner` that stands nearest before the position; null if there is none.
  std::unique_ptr<EntryDecoder> take(const void* owner, std::uint64_t position);
  // Keeps a decoder, and drops those that were not used for the longest time if they take too much.
  void give(const void* owner, std::unique_ptr<EntryDecoder> decoder);
  // Drops the decoders of `owner`.
  void forget(const void* owner);

 private:
  std::mutex mutex_;
  // The one that was used last comes last.
  std::list<std::pair<const void*, std::unique_ptr<EntryDecoder>>> idle_;
  std::uint64_t memory_ = 0;  // of idle_
};

}  // namespace cairn::inline v0::pytorch
