// compress.cc -- selects the encoder of a byte codec.
#include <cairn/codec/compress.h>

#include <cairn/codec/codecs.h>

#include <algorithm>
#include <iterator>

namespace cairn::inline v0 {
namespace {

constexpr std::string_view kBloscNames[] = {"blosclz", "lz4", "lz4hc", "snappy", "zlib", "zstd"};

}  // namespace

std::string_view blosc_inner_name(BloscInner inner) {
  return kBloscNames[static_cast<std::size_t>(inner)];
}

std::optional<BloscInner> blosc_inner_from_name(std::string_view name) {
  const auto* const found = std::find(std::begin(kBloscNames), std::end(kBloscNames), name);
  if (found == std::end(kBloscNames)) return std::nullopt;
  return static_cast<BloscInner>(found - std::begin(kBloscNames));
}

std::size_t compress_bound(Codec codec, std::size_t n) {
  switch (codec) {
    case Codec::kZstd:
      return codec::zstd_bound(n);
    case Codec::kGzip:
    case Codec::kZlib:
      return n + n / 1000 + 128;  // blocks of up to 64 KiB with five bytes each, and the wrapper
    case Codec::kBz2:
      return n + n / 100 + 1024;  // its manual: 1 % and 600 bytes
    case Codec::kLz4:
      return n + n / 255 + 32;  // LZ4_compressBound, and the decoded size
    case Codec::kBlosc:
      return n + 16;  // its header
  }
  return n;
}

std::size_t compress_into(Codec codec, const CompressOptions& options, ByteView in,
                          MutableByteView out) {
  switch (codec) {
    case Codec::kZstd:
      return codec::encode_zstd(options, in, out);
    case Codec::kGzip:
    case Codec::kZlib:
      return codec::encode_zlib(codec, options, in, out);
    case Codec::kBz2:
      return codec::encode_bz2(options, in, out);
    case Codec::kLz4:
      return codec::encode_lz4(options, in, out);
    case Codec::kBlosc:
      return codec::encode_blosc(options, in, out);
  }
  return 0;
}

}  // namespace cairn::inline v0
