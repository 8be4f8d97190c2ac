// compress.h -- byte compression: the encoders. The decoders are in decompress.h.
#pragma once

#include <cairn/bytes.h>
#include <cairn/codec/decompress.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn::inline v0 {

// The compressor inside blosc, and the filter that blosc applies to the bytes of elements first.
enum class BloscInner : std::uint8_t { kBlosclz, kLz4, kLz4hc, kSnappy, kZlib, kZstd };
// The filter.
enum class BloscShuffle : std::uint8_t {
  kAuto,  // kBits for elements of one byte, else kBytes
  kNone,
  kBytes,
  kBits,
};
std::string_view blosc_inner_name(BloscInner inner);  // in blosc's spelling, such as "lz4"
// Returns the compressor with this name; nullopt for an unknown one.
std::optional<BloscInner> blosc_inner_from_name(std::string_view name);

// The options of blosc.
struct BloscOptions {
  BloscInner inner = BloscInner::kLz4;
  BloscShuffle shuffle = BloscShuffle::kAuto;
  std::size_t type_size = 1;   // bytes of one element; 0 counts as 1
  std::size_t block_size = 0;  // 0: blosc chooses
  bool operator==(const BloscOptions&) const = default;
};

// The options of an encoder; each codec uses those that it has.
struct CompressOptions {
  int level = 1;          // for lz4 its acceleration
  bool checksum = false;  // zstd: append a checksum of the content
  // zstd: number of threads for a large input; the output is one frame in any case
  std::size_t threads = 1;
  BloscOptions blosc = {};
  bool operator==(const CompressOptions&) const = default;
};

// Returns the largest encoded size of `n` bytes.
std::size_t compress_bound(Codec codec, std::size_t n);
// Encodes `in` as one frame, member, stream or block into `out`, which must hold compress_bound
// bytes. Returns the encoded size. Throws invalid_argument for a level that the codec does not have
// or an input larger than it accepts (blosc, lz4: 2 GiB), and unimplemented for an inner compressor
// that this build of blosc lacks.
std::size_t compress_into(Codec codec, const CompressOptions& options, ByteView in,
                          MutableByteView out);

}  // namespace cairn::inline v0
