// codec_blosc.cc -- blosc and lz4: blocks whose header gives the decoded size.
//
// blosc:
//      0         1         2       3          4        8           12       16
//      | version | variant | flags | typesize | nbytes | blocksize | cbytes | blocks ...     u32 little-endian
// lz4, as numcodecs frames it: u32 decoded size, one raw block
#include <blosc.h>
#include <cairn/base/codecs.h>
#include <lz4.h>

#include <cstring>

namespace cairn::codecs {

std::size_t lz4_size(ByteView in) {
  std::uint32_t size = 0;
  if (in.size() < sizeof(size)) fail(Codec::kLz4, "is too short for its size field");
  std::memcpy(&size, in.data(), sizeof(size));
  constexpr std::uint64_t kMostPerByte = 255;  // a run's length grows by at most that with each byte spent on it
  if (size > LZ4_MAX_INPUT_SIZE || size > kMostPerByte * in.size())
    fail(Codec::kLz4, "cannot decode to the " + std::to_string(size) + " bytes it claims");
  return size;
}

void decode_lz4(ByteView in, MutableByteView out) {
  check_size(Codec::kLz4, lz4_size(in), out.size());
  const ByteView block = in.subspan(sizeof(std::uint32_t));
  if (block.size() > LZ4_COMPRESSBOUND(LZ4_MAX_INPUT_SIZE)) fail(Codec::kLz4, "is longer than a block can be");
  const int n = LZ4_decompress_safe(reinterpret_cast<const char*>(block.data()), reinterpret_cast<char*>(out.data()),
                                    static_cast<int>(block.size()), static_cast<int>(out.size()));
  if (n < 0 || static_cast<std::size_t>(n) != out.size()) fail(Codec::kLz4, "is damaged");
}

// The decoded size a header gives, after every check that keeps the library from believing it too much.
std::size_t blosc_size(ByteView in) {
  std::size_t size = 0;
  if (in.size() < BLOSC_MIN_HEADER_LENGTH) fail(Codec::kBlosc, "is shorter than its header");
  if (blosc_cbuffer_validate(in.data(), in.size(), &size) != 0)
    fail(Codec::kBlosc, "header does not fit its " + std::to_string(in.size()) + " bytes");
  std::uint32_t block_size = 0;
  std::memcpy(&block_size, &in[8], sizeof(block_size));
  if (in[3] == std::byte{0}) fail(Codec::kBlosc, "header has element size 0");
  if (size > 0 && (block_size == 0 || block_size > size)) fail(Codec::kBlosc, "header has block size " + std::to_string(block_size));
  return size;
}

void decode_blosc(ByteView in, MutableByteView out) {
  check_size(Codec::kBlosc, blosc_size(in), out.size());
  if (out.empty()) return;
  const int n = blosc_decompress_ctx(in.data(), out.data(), out.size(), 1);
  if (n < 0 || static_cast<std::size_t>(n) != out.size()) fail(Codec::kBlosc, "is damaged, or its inner codec is not in this build");
}

}  // namespace cairn::codecs
