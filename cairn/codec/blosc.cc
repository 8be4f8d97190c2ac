// blosc.cc -- blosc and lz4: blocks whose header gives the decoded size.
//
// blosc:
//      0         1         2       3          4        8           12       16
//      | version | variant | flags | typesize | nbytes | blocksize | cbytes | blocks ...
//   nbytes, blocksize and cbytes are u32 little-endian
// lz4, as numcodecs frames it: u32 decoded size, one raw block
#include <blosc.h>
#include <cairn/codec/codecs.h>
#include <lz4.h>

#include <cstring>

namespace cairn::inline v0::codec {

std::string blosc_version() { return blosc_get_version_string(); }
std::string lz4_version() { return LZ4_versionString(); }

std::size_t lz4_size(ByteView in) {
  std::uint32_t size = 0;
  if (in.size() < sizeof(size)) fail(Codec::kLz4, "is too short for its size field");
  std::memcpy(&size, in.data(), sizeof(size));
  // each byte spent on a run's length lengthens the run by at most this
  constexpr std::uint64_t kMostPerByte = 255;
  if (size > LZ4_MAX_INPUT_SIZE || size > kMostPerByte * in.size())
    fail(Codec::kLz4, "cannot decode to the " + std::to_string(size) + " bytes it claims");
  return size;
}

void decode_lz4(ByteView in, MutableByteView out) {
  check_size(Codec::kLz4, lz4_size(in), out.size());
  const ByteView block = in.subspan(sizeof(std::uint32_t));
  if (block.size() > LZ4_COMPRESSBOUND(LZ4_MAX_INPUT_SIZE))
    fail(Codec::kLz4, "is longer than a block can be");
  const int n = LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()),
                                    reinterpret_cast<char*>(out.data()),
                                    static_cast<int>(block.size()), static_cast<int>(out.size()));
  if (n < 0 || static_cast<std::size_t>(n) != out.size()) fail(Codec::kLz4, "is damaged");
}

// Returns the decoded size in the header, after all checks that the library needs to trust it.
std::size_t blosc_size(ByteView in) {
  std::size_t size = 0;
  if (in.size() < BLOSC_MIN_HEADER_LENGTH) fail(Codec::kBlosc, "is shorter than its header");
  if (blosc_cbuffer_validate(in.data(), in.size(), &size) != 0)
    fail(Codec::kBlosc, "header does not fit its " + std::to_string(in.size()) + " bytes");
  std::uint32_t block_size = 0;
  std::memcpy(&block_size, &in[8], sizeof(block_size));
  if (in[3] == std::byte{0}) fail(Codec::kBlosc, "header has element size 0");
  if (size > 0 && (block_size == 0 || block_size > size))
    fail(Codec::kBlosc, "header has block size " + std::to_string(block_size));
  return size;
}

void decode_blosc(ByteView in, MutableByteView out) {
  check_size(Codec::kBlosc, blosc_size(in), out.size());
  if (out.empty()) return;
  const int n = blosc_decompress_ctx(in.data(), out.data(), out.size(), 1);
  if (n < 0 || static_cast<std::size_t>(n) != out.size())
    fail(Codec::kBlosc, "is damaged, or this build lacks its inner codec");
}

std::size_t encode_lz4(const CompressOptions& options, ByteView in, MutableByteView out) {
  if (in.size() > LZ4_MAX_INPUT_SIZE)
    refuse(Codec::kLz4, std::to_string(in.size()) + " bytes are more than a block can hold");
  const auto size = static_cast<std::uint32_t>(in.size());
  std::memcpy(out.data(), &size, sizeof(size));
  const MutableByteView block = out.subspan(sizeof(size));
  const int n =
      LZ4_compress_fast(reinterpret_cast<const char*>(in.data()),
                        reinterpret_cast<char*>(block.data()), static_cast<int>(in.size()),
                        static_cast<int>(std::min<std::size_t>(block.size(), LZ4_MAX_INPUT_SIZE)),
                        std::max(options.level, 1));
  if (n <= 0) refuse(Codec::kLz4, "lz4 failed");
  return sizeof(size) + static_cast<std::size_t>(n);
}

namespace {

int blosc_shuffle(const BloscOptions& options) {
  switch (options.shuffle) {
    case BloscShuffle::kAuto:
      return options.type_size <= 1 ? BLOSC_BITSHUFFLE : BLOSC_SHUFFLE;
    case BloscShuffle::kNone:
      return BLOSC_NOSHUFFLE;
    case BloscShuffle::kBytes:
      return BLOSC_SHUFFLE;
    case BloscShuffle::kBits:
      return BLOSC_BITSHUFFLE;
  }
  return BLOSC_NOSHUFFLE;
}

}  // namespace

std::size_t encode_blosc(const CompressOptions& options, ByteView in, MutableByteView out) {
  check_level(Codec::kBlosc, options.level, 0, 9);
  if (in.size() > BLOSC_MAX_BUFFERSIZE)
    refuse(Codec::kBlosc, std::to_string(in.size()) + " bytes are more than a buffer can hold");
  const BloscOptions& blosc = options.blosc;
  const std::string inner(blosc_inner_name(blosc.inner));
  const int n = blosc_compress_ctx(options.level, blosc_shuffle(blosc),
                                   std::max<std::size_t>(blosc.type_size, 1), in.size(), in.data(),
                                   out.data(), out.size(), inner.c_str(), blosc.block_size, 1);
  if (n > 0) return static_cast<std::size_t>(n);
  throw Error(Code::kUnimplemented,
              "blosc cannot compress with '" + inner + "': this build lacks it");
}

}  // namespace cairn::inline v0::codec
