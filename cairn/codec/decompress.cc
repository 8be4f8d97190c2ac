// decompress.cc -- selects the decoder of a byte codec.
#include <cairn/codec/decompress.h>

#include <cairn/codec/codecs.h>

namespace cairn::inline v0 {
namespace {

using codec::Output;

// Decodes formats whose header gives the decoded size.
Bytes decode_sized(Codec codec, ByteView in, std::uint64_t max_size) {
  const std::size_t size = codec == Codec::kLz4 ? codec::lz4_size(in) : codec::blosc_size(in);
  if (size > max_size) codec::fail_long(codec, max_size);
  // The highest expansion of blosc's inner codecs: a run block of zstd makes 128 KiB from 4 bytes.
  constexpr std::uint64_t kMostPerByte = 32768;
  if (size > kMostPerByte * in.size())
    codec::fail(codec, "cannot decode to the " + std::to_string(size) + " bytes it claims");
  Bytes out(size);
  decompress_into(codec, in, out);
  return out;
}

}  // namespace

std::string_view codec_name(Codec codec) {
  constexpr std::string_view kNames[] = {"zstd", "gzip", "zlib", "blosc", "bz2", "lz4"};
  return kNames[static_cast<std::size_t>(codec)];
}

void decompress_into(Codec codec, ByteView in, MutableByteView out, Frames frames) {
  Output fixed(out);
  switch (codec) {
    case Codec::kZstd:
      return codec::decode_zstd_into(in, out, frames);
    case Codec::kBlosc:
      return codec::decode_blosc(in, out);
    case Codec::kLz4:
      return codec::decode_lz4(in, out);
    case Codec::kGzip:
    case Codec::kZlib:
      codec::decode_zlib(codec, in, fixed, frames);
      break;
    case Codec::kBz2:
      codec::decode_bz2(in, fixed, frames);
      break;
  }
  codec::check_size(codec, fixed.written(), out.size());
}

std::unique_ptr<ByteStream> open_decompressor(Codec codec, ByteSource source,
                                              std::uint64_t encoded_size, Frames frames) {
  switch (codec) {
    case Codec::kZstd:
      return codec::open_zstd(std::move(source), encoded_size, frames);
    case Codec::kBlosc:
      return codec::open_blosc(std::move(source), encoded_size);
    case Codec::kLz4:
      return codec::open_lz4(std::move(source));
    case Codec::kGzip:
    case Codec::kZlib:
      return codec::open_zlib(codec, std::move(source), frames);
    case Codec::kBz2:
      break;
  }
  return codec::open_bz2(std::move(source), frames);
}

Bytes decompress(Codec codec, ByteView in, std::uint64_t max_size, Frames frames) {
  if (codec == Codec::kZstd) return codec::decode_zstd(in, max_size, frames);
  if (codec == Codec::kBlosc || codec == Codec::kLz4) return decode_sized(codec, in, max_size);
  Bytes bytes;
  Output out(bytes, max_size);
  if (codec == Codec::kBz2)
    codec::decode_bz2(in, out, frames);
  else
    codec::decode_zlib(codec, in, out, frames);
  out.finish();
  return bytes;
}

}  // namespace cairn::inline v0
