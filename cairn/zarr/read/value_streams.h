// value_streams.h -- reads compressed values that are too large to decode whole in parts. A reader
// that takes the parts in order, as conversion does, continues with the decoder where the previous
// part ended: each byte is decoded once.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/io/file.h>
#include <cairn/types.h>
#include <cairn/zarr/codec/chain_stream.h>

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

// Opens the file of a value when it is needed.
using OpenFileFn = std::function<std::shared_ptr<const File>()>;

// The bytes of a value that lies in `file`.
EncodedValue value_in_file(const StreamedValue& value, std::shared_ptr<const File> file);

// The treatment of a value with a checksum, which can be verified only by decoding to its end.
enum class IfChecksum : std::uint8_t {
  kRefuse,      // return no decoder; the caller decodes the value whole
  kCheckFirst,  // decode it twice, first to verify the checksum
};

// Decoders that stand somewhere inside a value. Safe to use from many threads.
class ValueStreams {
 public:
  // Returns a decoder that stands at `begin`: a kept one, or a new one that is advanced to there.
  // Returns null if the value cannot be decoded in parts within `most` bytes of memory, or if
  // `policy` refuses it. Data of a value with a checksum is returned only after the checksum has
  // been verified.
  std::unique_ptr<ChainStream> take(const StreamedValue& value, std::span<const ByteStep> steps,
                                    const OpenFileFn& open, std::uint64_t begin, IfChecksum policy,
                                    std::uint64_t most);
  // Keeps a decoder for the next part. Drops the decoders that have been unused for longest.
  void keep(const StreamedValue& value, std::unique_ptr<ChainStream> stream);

 private:
  struct Kept {
    StreamedValue value;
    std::unique_ptr<ChainStream> stream;
  };
  std::unique_ptr<ChainStream> find(const StreamedValue& value, std::uint64_t begin);
  bool is_verified(const StreamedValue& value);
  void note_verified(const StreamedValue& value);

  std::mutex mutex_;
  std::deque<Kept> kept_;
  std::deque<StreamedValue> verified_;  // the next reader need not verify their checksums again
};

}  // namespace cairn::inline v0::zarr
