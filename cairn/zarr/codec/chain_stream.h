// chain_stream.h -- undoes the bytes-to-bytes steps of a chain in parts, for chunks that are too
// large to decode whole.
#pragma once

#include <cairn/codec/decompress.h>
#include <cairn/zarr/codec/codec_chain.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace cairn::inline v0::zarr {

// Whether the decoded bytes must be in order. A check may see them in any order, so that it need
// not undo a shuffle, which takes the whole chunk.
enum class ByteOrder : std::uint8_t { kKeep, kAny };

// The stored bytes of a chunk.
struct EncodedValue {
  ByteSource source;  // supplies them in order
  std::uint64_t size = 0;
};
// Returns the value that lies in memory.
EncodedValue value_in_memory(ByteView stored);

// The elements of a chunk, from front to back.
class ChainStream {
 public:
  // Returns the stream at the beginning of a chunk of `nbytes` decoded bytes. Returns null if a step
  // must be undone on the whole chunk, or if that would take more than `most` bytes of memory; then
  // sets `why`. Throws data_loss for damage. `frames` are allowed for the last step.
  static std::unique_ptr<ChainStream> open(std::span<const ByteStep> steps, EncodedValue value,
                                           std::uint64_t nbytes, std::uint64_t most,
                                           std::string& why, ByteOrder order = ByteOrder::kKeep,
                                           Frames frames = Frames::kAny);

  // Returns whether the chunk may have a checksum, which is verified only by reading to its end.
  [[nodiscard]] bool has_checksum() const;
  // Returns whether a checksum covers the chunk. Valid at its end.
  [[nodiscard]] bool checksummed() const;
  // Returns the offset of the next decoded byte.
  [[nodiscard]] std::uint64_t position() const { return position_; }
  // Returns about the most memory that reading takes.
  [[nodiscard]] std::uint64_t memory() const;
  // Reads the next bytes. Throws data_loss for damage. With the last byte, also throws data_loss
  // unless the value ends there.
  void read(MutableByteView out);
  // Decodes and discards the next n bytes. Throws what read throws.
  void skip(std::uint64_t n);

 private:
  explicit ChainStream(std::uint64_t nbytes) : nbytes_(nbytes) {}

  std::vector<std::shared_ptr<ByteStream>> layers_;  // the outermost first
  std::uint64_t nbytes_;
  std::uint64_t position_ = 0;
  bool has_checksum_ = false;
};

// Returns the most memory that opening a stream takes.
std::uint64_t memory_to_open(std::span<const ByteStep> steps);

}  // namespace cairn::inline v0::zarr
