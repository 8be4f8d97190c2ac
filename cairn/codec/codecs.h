// codecs.h -- the interface between the codec implementations and their dispatchers compress.cc and
// decompress.cc. Each compression library is included by one file only: zstd.cc, zlib.cc (with
// bzip2, which works alike), blosc.cc (with lz4), snappy.cc. lz4_stream.cc needs no library.
#pragma once

#include <cairn/codec/compress.h>
#include <cairn/codec/decompress.h>
#include <cairn/error.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace cairn::inline v0::codec {

// the first allocation for output of unknown size, for any input
inline constexpr std::size_t kFirstGuess = std::size_t{1} << 20U;

// Throws data_loss for damaged input.
[[noreturn]] inline void fail(Codec codec, const std::string& what) {
  throw Error(Code::kDataLoss, std::string(codec_name(codec)) + " data: " + what);
}

// Throws data_loss for input that decodes to more than `bound` bytes.
[[noreturn]] inline void fail_long(Codec codec, std::uint64_t bound) {
  fail(codec, "decodes to more than the expected " + std::to_string(bound) + " bytes");
}

// Throws data_loss unless the decoded size is the expected one.
inline void check_size(Codec codec, std::uint64_t decoded, std::uint64_t expected) {
  if (decoded > expected) fail_long(codec, expected);
  if (decoded < expected)
    fail(codec, "decodes to " + std::to_string(decoded) + " bytes, " + std::to_string(expected) +
                    " are expected");
}

// Throws data_loss if more data behind the first frame is not allowed.
inline void check_may_follow(Codec codec, Frames frames) {
  if (frames != Frames::kAny) fail(codec, "more data follows its first frame");
}

// Throws invalid_argument for options or input that the codec does not support.
[[noreturn]] inline void refuse(Codec codec, const std::string& why) {
  throw Error(Code::kInvalidArgument, std::string(codec_name(codec)) + " cannot compress: " + why);
}

// Throws invalid_argument unless the level is in the codec's range.
inline void check_level(Codec codec, int level, int least, int greatest) {
  if (level >= least && level <= greatest) return;
  refuse(codec, "level " + std::to_string(level) + " is outside the range from " +
                    std::to_string(least) + " to " + std::to_string(greatest));
}

// The versions of the libraries that a file includes.
std::string zstd_version();
// Whether the library reports all damage that its format allows to notice.
bool is_zstd_strict();
std::string deflate_version();  // zlib.h has a macro zlib_version
std::string bzip2_version();
std::string blosc_version();
std::string lz4_version();
std::string snappy_version();
// All of them: {"zstd", "1.5.6"}, ...
std::vector<std::pair<std::string, std::string>> library_versions();

// The destination of a decoder: memory of fixed size, or bytes that grow up to a bound.
class Output {
 public:
  explicit Output(MutableByteView fixed) : free_(fixed), bound_(fixed.size()) {}
  Output(Bytes& growing, std::uint64_t bound) : growing_(&growing), bound_(bound) {}

  // Returns room for at least one byte. At the bound it is a spare byte: a decoder that fills it
  // has produced too much.
  MutableByteView room() {
    if (free_.empty() && growing_ && written_ < bound_) {
      growing_->resize(
          std::min<std::uint64_t>(bound_, std::max<std::uint64_t>(kFirstGuess, 2 * written_)));
      free_ = MutableByteView(*growing_).subspan(written_);
    }
    return free_.empty() ? MutableByteView(&spare_, 1) : free_;
  }
  // Records that the decoder has filled n bytes of the room. Throws data_loss beyond the bound.
  void wrote(Codec codec, std::size_t n) {
    if (n > free_.size()) fail_long(codec, bound_);
    free_ = free_.subspan(n);
    written_ += n;
  }
  [[nodiscard]] std::uint64_t written() const { return written_; }
  // Shrinks growing output to the written size.
  void finish() {
    if (growing_) growing_->resize(written_);
  }

 private:
  MutableByteView free_;
  Bytes* growing_ = nullptr;
  std::uint64_t bound_;
  std::uint64_t written_ = 0;
  std::byte spare_{};
};

// Decode all of `in` into all of `out`.
void decode_zstd_into(ByteView in, MutableByteView out, Frames frames);
void decode_lz4(ByteView in, MutableByteView out);
void decode_blosc(ByteView in, MutableByteView out);

// Decode all of `in`, whose decoded size is unknown.
Bytes decode_zstd(ByteView in, std::uint64_t max_size, Frames frames);
// kGzip or kZlib
void decode_zlib(Codec codec, ByteView in, Output& out, Frames frames);
void decode_bz2(ByteView in, Output& out, Frames frames);

// Open streams, as open_decompressor does.
std::unique_ptr<ByteStream> open_zstd(ByteSource source, std::uint64_t encoded_size, Frames frames);
// kGzip or kZlib
std::unique_ptr<ByteStream> open_zlib(Codec codec, ByteSource source, Frames frames);
std::unique_ptr<ByteStream> open_bz2(ByteSource source, Frames frames);
std::unique_ptr<ByteStream> open_lz4(ByteSource source);
std::unique_ptr<ByteStream> open_blosc(ByteSource source, std::uint64_t encoded_size);

// Return the decoded size in the header, after plausibility checks. blosc_size does not yet compare
// it with the size of `in`.
std::size_t lz4_size(ByteView in);
std::size_t blosc_size(ByteView in);

// Encode all of `in` into `out`, which has room for the bound. Return the encoded size.
std::size_t encode_zstd(const CompressOptions& options, ByteView in, MutableByteView out);
// kGzip or kZlib
std::size_t encode_zlib(Codec codec, const CompressOptions& options, ByteView in,
                        MutableByteView out);
std::size_t encode_bz2(const CompressOptions& options, ByteView in, MutableByteView out);
std::size_t encode_lz4(const CompressOptions& options, ByteView in, MutableByteView out);
std::size_t encode_blosc(const CompressOptions& options, ByteView in, MutableByteView out);
// Returns the largest size that n bytes can take as a zstd frame.
std::size_t zstd_bound(std::size_t n);

}  // namespace cairn::inline v0::codec
