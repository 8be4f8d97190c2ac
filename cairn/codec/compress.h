// compress.h -- byte compression: the encoders. Their decoders are in compress.h.
#pragma once

#include <cairn/bytes.h>
#include <cairn/codec/decompress.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace cairn {

// The compressor inside blosc, and what blosc does to the bytes of elements first.
enum class BloscInner : std::uint8_t { kBlosclz, kLz4, kLz4hc, kSnappy, kZlib, kZstd };
enum class BloscShuffle : std::uint8_t {
  kAuto,  // bits for elements of one byte, else bytes
  kNone,
  kBytes,
  kBits,
};
std::string_view blosc_inner_name(BloscInner inner);  // "lz4", as blosc spells it
std::optional<BloscInner> blosc_inner_from_name(std::string_view name);

struct BloscOptions {
  BloscInner inner = BloscInner::kLz4;
  BloscShuffle shuffle = BloscShuffle::kAuto;
  std::size_t type_size = 1;   // bytes of one element; 0 counts as 1
  std::size_t block_size = 0;  // 0: blosc chooses
  bool operator==(const BloscOptions&) const = default;
};

// How a codec encodes; each codec looks at what it has.
struct CompressOptions {
  int level = 1;          // lz4: its acceleration
  bool checksum = false;  // zstd: a checksum of the content behind it
  // zstd: how many may work at a large input; it is one frame all the same
  std::size_t threads = 1;
  BloscOptions blosc = {};
  bool operator==(const CompressOptions&) const = default;
};

// The most that `n` bytes can become.
std::size_t compress_bound(Codec codec, std::size_t n);
// Encodes `in` as one frame, member, stream or block into `out`, which holds compress_bound bytes,
// and returns how many it took. Throws invalid_argument for a level the codec does not have or an
// input larger than it takes (blosc, lz4: 2 GiB), unimplemented for an inner compressor that this
// build of blosc lacks.
std::size_t compress_into(Codec codec, const CompressOptions& options, ByteView in,
                          MutableByteView out);

}  // namespace cairn
