// compress_fuzz.cc -- decompresses any bytes with any codec. The output must not exceed the limit,
// and all ways to decode must agree. Input: one byte that chooses the codec, then the compressed
// bytes.
#include <cairn/codec/decompress.h>
#include <cairn/error.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

namespace {

// A frame decoded in parts must give the same value.
void check_stream(cairn::ByteView in, const cairn::Bytes& value) {
  std::size_t at = 0;
  const auto source = [&](cairn::MutableByteView out) {
    const std::size_t n = std::min(out.size(), in.size() - at);
    std::copy_n(in.begin() + static_cast<std::ptrdiff_t>(at), n, out.begin());
    at += n;
    return n;
  };
  const auto stream = cairn::ZstdStream::open(source, in.size(), value.size());
  if (!stream) return;
  cairn::Bytes again(value.size());
  const std::size_t half = again.size() / 2;
  stream->read(cairn::MutableByteView(again).first(half));
  stream->read(cairn::MutableByteView(again).subspan(half));
  if (again != value) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  constexpr int kCodecs = 6;
  constexpr std::uint64_t kMaxSize = 1U << 20U;
  const auto codec = static_cast<cairn::Codec>(data[0] % kCodecs);
  const cairn::ByteView in =
      cairn::ByteView(reinterpret_cast<const std::byte*>(data), size).subspan(1);
  try {
    const cairn::Bytes value = cairn::decompress(codec, in, kMaxSize);
    if (value.size() > kMaxSize) std::abort();
    cairn::Bytes again(value.size());
    cairn::decompress_into(codec, in, again);
    if (again != value) std::abort();
    if (codec == cairn::Codec::kZstd) (void)cairn::zstd_has_checksum(in);
    if (codec == cairn::Codec::kZstd) (void)cairn::decompress_one_zstd_frame(in, kMaxSize);
    if (codec == cairn::Codec::kZstd) check_stream(in, value);
  } catch (const cairn::Error&) {  // a rejected input is fine
  }
  return 0;
}
