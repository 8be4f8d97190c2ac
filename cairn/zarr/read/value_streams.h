// value_streams.h -- compressed values too large to be decoded whole, read in parts. A reader that
// takes a value's parts in order, as converting does, finds the decoder where the part before left
// it: each byte is decoded once.
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

namespace cairn::zarr {

// Where a stored value lies, and how large its elements are.
struct StreamedValue {
  std::string file;
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  std::uint64_t nbytes = 0;
  bool operator==(const StreamedValue&) const = default;
};

// Whether values of this chain are zstd frames and nothing else.
bool can_stream(const CodecChain& chain);
// Whether a chunk is too large to be decoded whole within the budget.
bool too_large(const CodecChain& chain, const ByteBudget* budget);
// The file of a value, opened when it is needed.
using OpenFileFn = std::function<std::shared_ptr<const File>()>;

// A decoder at the beginning of the value, which lies in `file`; nullptr if the value is no zstd
// frame that can be streamed.
std::unique_ptr<ZstdStream> open_value_stream(const StreamedValue& value,
                                              std::shared_ptr<const File> file);

// What to do about a frame with a checksum, which only decoding to its end checks.
enum class IfChecksum : std::uint8_t {
  kRefuse,      // no decoder: let it be decoded whole
  kCheckFirst,  // decode it twice
};

// Decoders that stand somewhere inside a value. Safe to use from many threads.
class ValueStreams {
 public:
  // One that stands at `begin`; made, and brought there, if there is none. nullptr if the value is
  // no zstd frame that can be streamed. Nothing unchecked is handed out of a frame with a checksum.
  std::unique_ptr<ZstdStream> take(const StreamedValue& value, const OpenFileFn& open,
                                   std::uint64_t begin, IfChecksum policy);
  // Keeps a decoder for the next part. Those kept longest without use are dropped.
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

}  // namespace cairn::zarr
