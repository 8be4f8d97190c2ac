// value_streams.h -- reads compressed values that are too large to decode whole in parts. A reader
// that takes the parts in order, as conversion does, continues with the decoder where the previous
// part ended: each byte is decoded once.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/codec/decompress.h>
#include <cairn/io/file.h>
#include <cairn/types.h>
#include <cairn/zarr/codec/codec_chain.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>

namespace cairn::inline v0::zarr {

// The location of a stored value, and the size of its elements in bytes.
struct StreamedValue {
  std::string file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t nbytes = 0;
  bool operator==(const StreamedValue&) const = default;
};

// Returns whether the values of this chain are plain zstd frames.
bool can_stream(const CodecChain& chain);
// Returns whether a chunk is too large to decode whole within the budget.
bool too_large(const CodecChain& chain, const ByteBudget* budget);
// Opens the file of a value when it is needed.
using OpenFileFn = std::function<std::shared_ptr<const File>()>;

// Returns a decoder at the beginning of the value, which lies in `file`; null if the value is not a
// zstd frame that can be streamed.
std::unique_ptr<ZstdStream> open_value_stream(const StreamedValue& value,
                                              std::shared_ptr<const File> file);

// The treatment of a frame with a checksum, which can be verified only by decoding to its end.
enum class IfChecksum : std::uint8_t {
  kRefuse,      // return no decoder; the caller decodes the value whole
  kCheckFirst,  // decode it twice, first to verify the checksum
};

// Decoders that stand somewhere inside a value. Safe to use from many threads.
class ValueStreams {
 public:
  // Returns a decoder that stands at `begin`: a kept one, or a new one that is advanced to there.
  // Returns null if the value is not a zstd frame that can be streamed, or if `policy` refuses it.
  // Data of a frame with a checksum is returned only after the checksum has been verified.
  std::unique_ptr<ZstdStream> take(const StreamedValue& value, const OpenFileFn& open,
                                   std::uint64_t begin, IfChecksum policy);
  // Keeps a decoder for the next part. Drops the decoders that have been unused for longest.
  void keep(const StreamedValue& value, std::unique_ptr<ZstdStream> stream);

 private:
  struct Kept {
    StreamedValue value;
    std::unique_ptr<ZstdStream> stream;
  };
  std::unique_ptr<ZstdStream> find(const StreamedValue& value, std::uint64_t begin);

  std::mutex mutex_;
  std::deque<Kept> kept_;
};

}  // namespace cairn::inline v0::zarr
