// decompress.h -- byte decompression with output sizes that the caller bounds, and the zstd
// encoder. Every decoder throws Error(kDataLoss) for damaged, truncated or over-long input, and
// does not allocate more than the bound.
#pragma once

#include <cairn/base/memory/raw_bytes.h>
#include <cairn/bytes.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace cairn::inline v0 {

// The byte codecs.
enum class Codec : std::uint8_t { kZstd, kGzip, kZlib, kBlosc, kBz2, kLz4 };
// Returns the name of the codec, such as "zstd".
std::string_view codec_name(Codec codec);

// The frames of zstd, or members of gzip and bz2, of which a value may consist. Readers differ.
enum class Frames : std::uint8_t {
  kAny,              // as many as there are; zstd's skippable frames anywhere
  kOne,              // one, and nothing else
  kOneAndSkippable,  // one, and skippable frames behind it
};

// Decodes all of `in` into all of `out`. Throws data_loss unless both sizes match exactly, and
// unless the value consists of such frames. lz4 data has numcodecs' form: u32 little-endian decoded
// size, then one raw block.
void decompress_into(Codec codec, ByteView in, MutableByteView out, Frames frames = Frames::kAny);

// Decodes `in`, whose decoded size is unknown but must be at most max_size. Memory grows with the
// decoded data: a small hostile input does not allocate max_size unless it really decodes to that
// size.
Bytes decompress(Codec codec, ByteView in, std::uint64_t max_size, Frames frames = Frames::kAny);
// Like decompress, for exactly one zstd frame without trailing bytes, as an OCDBT node body must
// be.
RawBytes decompress_one_zstd_frame(ByteView in, std::uint64_t max_size);

// Decodes one snappy block without framing. Its decoded size must be at most max_size.
Bytes decompress_snappy(ByteView in, std::uint64_t max_size);

// Fills its argument with the next bytes of an encoded value and returns their number, which is
// smaller only at the end of the value.
using ByteSource = std::function<std::size_t(MutableByteView)>;
// The size of a value that is known only at its end.
inline constexpr std::uint64_t kUnknownSize = ~std::uint64_t{0};

// Decoded bytes, from front to back, a part at a time.
class ByteStream {
 public:
  ByteStream() = default;
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;
  virtual ~ByteStream() = default;

  // Fills `out` and returns the number of bytes, which is smaller only at the end of the value.
  // Throws data_loss for damage, truncation and trailing bytes.
  virtual std::size_t read(MutableByteView out) = 0;
  // Returns whether a checksum covers all decoded bytes. Valid at the end of the value; before it,
  // returns false only if no checksum is known so far.
  [[nodiscard]] virtual bool checksummed() const = 0;
  // Returns about the most memory that reading takes.
  [[nodiscard]] virtual std::uint64_t memory() const = 0;
  // Returns the decoded size that the first header declares; kUnknownSize if it declares none.
  [[nodiscard]] virtual std::uint64_t declared_size() const { return kUnknownSize; }
};

// Like decompress_into, for a value that is one zstd frame. `source` supplies its `encoded_size`
// bytes piece by piece, so that they need not be in memory at once. Returns false, with `out` in
// any state, unless the value is one frame that declares out.size() decoded bytes. The caller then
// decodes the value whole.
bool decompress_zstd_stream(const ByteSource& source, std::uint64_t encoded_size,
                            MutableByteView out);

// Decodes a zstd frame from front to back, a part at a time. Neither its encoded nor its decoded
// bytes must fit into memory, only its window: a few megabytes. Frames with a window of more than
// 128 MiB are not opened.
class ZstdStream {
 public:
  // `source` supplies the value's `encoded_size` bytes in order. Returns null if the value does not
  // begin with a frame that declares `decoded_size` bytes, or if the frame's window is too large.
  static std::unique_ptr<ZstdStream> open(ByteSource source, std::uint64_t encoded_size,
                                          std::uint64_t decoded_size);
  ~ZstdStream();
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  // Returns whether the frame has a checksum, which is verified only by reading to its end.
  [[nodiscard]] bool has_checksum() const;
  // Returns the offset of the next decoded byte.
  [[nodiscard]] std::uint64_t position() const;
  // Reads the next bytes. Throws data_loss for damage. With the last byte, also throws data_loss
  // unless the frame and the value end there.
  void read(MutableByteView out);
  // Decodes and discards the next n bytes. Throws what read throws.
  void skip(std::uint64_t n);

 private:
  struct State;
  explicit ZstdStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// Decodes a deflate stream without a wrapper, as in zip members, from front to back in bounded
// memory.
class InflateStream {
 public:
  // `source` supplies the stream's bytes in order, without any trailing bytes.
  explicit InflateStream(ByteSource source);
  ~InflateStream();
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;

  // Fills `out` and returns the number of bytes, which is smaller only at the end of the stream.
  // Throws data_loss for damage, truncation and trailing bytes.
  std::size_t read(MutableByteView out);

 private:
  std::unique_ptr<ByteStream> stream_;
};

// Returns a stream that decodes a value of any codec, in the forms that decompress accepts.
// `source` supplies the value's `encoded_size` bytes in order (kUnknownSize: up to its end). Reads
// no more than a header before the first read. Returns null if the value has a form that can only
// be decoded whole: a zstd frame with a window of more than 128 MiB, or blosc data that does not
// consist of whole elements.
std::unique_ptr<ByteStream> open_decompressor(Codec codec, ByteSource source,
                                              std::uint64_t encoded_size,
                                              Frames frames = Frames::kAny);

// Returns true if `in` consists of zstd frames that all have a content checksum, so that a flipped
// bit of the value is detected.
bool zstd_has_checksum(ByteView in);

// Encodes `in` as one zstd frame with a content size; `checksum` adds a content checksum.
Bytes compress_zstd(ByteView in, int level, bool checksum);

}  // namespace cairn::inline v0
