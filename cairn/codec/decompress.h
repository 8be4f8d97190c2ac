// decompress.h -- byte compression: decoders whose output size the caller bounds, and the zstd
// encoder. Every decoder throws Error(kDataLoss) for a damaged, truncated or over-long input and
// allocates no more than the bound.
#pragma once

#include <cairn/bytes.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace cairn {

enum class Codec : std::uint8_t { kZstd, kGzip, kZlib, kBlosc, kBz2, kLz4 };
std::string_view codec_name(Codec codec);

// Decodes all of `in` into all of `out`: both sizes must fit exactly, else data_loss. lz4 is
// numcodecs' form (u32 little-endian decoded size, then one raw block). zstd and gzip: several
// frames or members in a row are accepted.
void decompress_into(Codec codec, ByteView in, MutableByteView out);

// Decodes `in`, whose decoded size is unknown but must be <= max_size. Output grows with real data:
// a small hostile input never allocates max_size at once unless it really decodes to that.
Bytes decompress(Codec codec, ByteView in, std::uint64_t max_size);
// The same for exactly one zstd frame with nothing behind it: what an OCDBT node body must be.
Bytes decompress_one_zstd_frame(ByteView in, std::uint64_t max_size);

// Decodes one block of snappy, without any framing, whose decoded size must be <= max_size.
Bytes decompress_snappy(ByteView in, std::uint64_t max_size);

// Fills its argument with the next bytes of an encoded value; all of it, unless the value ends.
// Returns how many.
using ByteSource = std::function<std::size_t(MutableByteView)>;
// As decompress_into for a value that is one zstd frame, `encoded_size` bytes that `source` hands
// out piece by piece, so that they need not be in memory at once. False, with `out` in any state,
// if it is not one frame that says it decodes to out.size() bytes: decode it whole then.
bool decompress_zstd_stream(const ByteSource& source, std::uint64_t encoded_size,
                            MutableByteView out);

// A zstd frame decoded from front to back, a part at a time: neither its encoded nor its decoded
// bytes must fit into memory, only its window (a few megabytes; frames that want more than 128 MiB
// are not opened).
class ZstdStream {
 public:
  // nullptr if the value, `encoded_size` bytes that `source` hands out in order, does not begin
  // with a frame that says it decodes to `decoded_size` bytes, or its window is too large.
  static std::unique_ptr<ZstdStream> open(ByteSource source, std::uint64_t encoded_size,
                                          std::uint64_t decoded_size);
  ~ZstdStream();
  ZstdStream(const ZstdStream&) = delete;
  ZstdStream& operator=(const ZstdStream&) = delete;

  // Whether the frame carries a checksum, which only reading to its end checks.
  [[nodiscard]] bool has_checksum() const;
  // Of the next decoded byte.
  [[nodiscard]] std::uint64_t position() const;
  // The next bytes; data_loss for damage, and with the last byte also if the frame does not end
  // there, and the value with it.
  void read(MutableByteView out);
  void skip(std::uint64_t n);

 private:
  struct State;
  explicit ZstdStream(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// A deflated stream without any wrapper, as zip members are, decoded from front to back in bounded
// memory.
class InflateStream {
 public:
  // `source` hands out the stream's bytes in order, and nothing behind it.
  explicit InflateStream(ByteSource source);
  ~InflateStream();
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;

  // Fills `out`; less only where the stream ends. data_loss for damage and truncation, and for
  // bytes behind the stream's end.
  std::size_t read(MutableByteView out);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// True if `in` is made of zstd frames that all carry a content checksum (so that a flipped bit of
// the value is noticed).
bool zstd_has_checksum(ByteView in);

// One zstd frame, with content size, with or without content checksum.
Bytes compress_zstd(ByteView in, int level, bool checksum);

}  // namespace cairn
