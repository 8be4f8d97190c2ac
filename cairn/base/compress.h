// compress.h -- byte compression: decoders whose output size the caller bounds, and the zstd encoder.
// Every decoder throws Error(kDataLoss) for a damaged, truncated or over-long input and allocates no more than the bound.
#pragma once

#include <cairn/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace cairn {

enum class Codec : std::uint8_t { kZstd, kGzip, kZlib, kBlosc, kBz2, kLz4 };
std::string_view codec_name(Codec codec);

// Decodes all of `in` into all of `out`: both sizes must fit exactly, else data_loss. lz4 is numcodecs' form (u32
// little-endian decoded size, then one raw block). zstd and gzip: several frames or members in a row are accepted.
void decompress_into(Codec codec, ByteView in, MutableByteView out);

// Decodes `in`, whose decoded size is unknown but must be <= max_size. Output grows with real data: a small hostile
// input never allocates max_size at once unless it really decodes to that.
Bytes decompress(Codec codec, ByteView in, std::uint64_t max_size);
// The same for exactly one zstd frame with nothing behind it: what an OCDBT node body must be.
Bytes decompress_one_zstd_frame(ByteView in, std::uint64_t max_size);

// Fills its argument with the next bytes of an encoded value; all of it, unless the value ends. Returns how many.
using ByteSource = std::function<std::size_t(MutableByteView)>;
// As decompress_into for a value that is one zstd frame, `encoded_size` bytes that `source` hands out piece by piece, so
// that they need not be in memory at once. False, with `out` in any state, if it is not one frame that says it decodes to
// out.size() bytes: decode it whole then.
bool decompress_zstd_stream(const ByteSource& source, std::uint64_t encoded_size, MutableByteView out);

// True if `in` is made of zstd frames that all carry a content checksum (so that a flipped bit of the value is noticed).
bool zstd_has_checksum(ByteView in);

// One zstd frame, with content size, with or without content checksum.
Bytes compress_zstd(ByteView in, int level, bool checksum);

}  // namespace cairn
