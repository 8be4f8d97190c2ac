// codec_chain.h -- the closed set of Zarr codecs and the chain that turns stored bytes into the
// elements of a chunk.
//
//   elements --transpose--> --bytes (byte order) or sharding_indexed--> --step--> ... --step-->
//   stored value
//
// Both formats are one chain: v2's order F is a transpose, its filters and compressor are steps.
#pragma once

#include <cairn/codec/compress.h>
#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

namespace cairn::zarr {

// A general compressor. What it made describes itself, so `options` matter to writers only.
struct CompressStep {
  Codec codec = Codec::kZstd;
  CompressOptions options = {};
  bool operator==(const CompressStep&) const = default;
};
// Four bytes behind (or, numcodecs only, before) the others: their CRC-32C, little-endian.
struct Crc32cStep {
  bool at_start = false;
  bool operator==(const Crc32cStep&) const = default;
};
// numcodecs' other checksums: four bytes, little-endian, behind or before the others.
enum class Checksum : std::uint8_t { kCrc32, kAdler32, kFletcher32, kLookup3 };
struct ChecksumStep {
  Checksum kind = Checksum::kCrc32;
  bool at_start = false;
  std::uint32_t seed = 0;  // lookup3's
  bool operator==(const ChecksumStep&) const = default;
};

// A type of numbers, as a filter says how it reads its bytes.
struct NumberType {
  DType dtype = DType::kUint8;
  bool big_endian = false;
  bool operator==(const NumberType&) const = default;
};
// numcodecs.shuffle: the first byte of every element, then every second byte, ...; a rest that
// fills no element as it is.
struct ShuffleStep {
  std::size_t element_size = 1;
  bool operator==(const ShuffleStep&) const = default;
};
// numcodecs.delta: each element but the first is the difference to the one before; integers wrap
// around.
struct DeltaStep {
  NumberType decoded;
  NumberType stored;
  bool operator==(const DeltaStep&) const = default;
};
// numcodecs.astype and quantize: elements were cast.
struct CastStep {
  NumberType decoded;
  NumberType stored;
  bool operator==(const CastStep&) const = default;
};
// numcodecs.fixedscaleoffset: stored = round((x - offset) * scale).
struct ScaleStep {
  NumberType decoded;
  NumberType stored;
  double scale = 1;
  double offset = 0;
  bool operator==(const ScaleStep&) const = default;
};
// numcodecs.packbits: how many bits of the last byte are padding (one byte), then 8 bools in each
// byte, the first one highest.
struct PackBitsStep {
  bool operator==(const PackBitsStep&) const = default;
};
using ByteStep = std::variant<CompressStep, Crc32cStep, ChecksumStep, ShuffleStep, DeltaStep,
                              CastStep, ScaleStep, PackBitsStep>;

inline bool is_zstd(const ByteStep& step) {
  const auto* compress = std::get_if<CompressStep>(&step);
  return compress != nullptr && compress->codec == Codec::kZstd;
}

struct ShardCodec;

// What turns elements of no fixed size into bytes. Such a chunk is checked, but not read.
enum class ObjectCodec : std::uint8_t {
  kNone,       // elements have a size
  kVlenUtf8,   // objects.h
  kVlenBytes,  // the same without the rules of UTF-8
  kOther,      // JSON, MessagePack, pickles: only the steps around them are checked
};

struct CodecChain {
  // Transpose: dimension i of the encoded chunk is dimension order[i] of the decoded one. Empty:
  // none.
  std::vector<std::size_t> order;
  Shape shape;                               // of the encoded chunk, that is after the transpose
  std::uint64_t nbytes = 0;                  // of its elements
  bool swap_bytes = false;                   // elements are stored big-endian
  std::shared_ptr<const ShardCodec> shard;   // set: sharding_indexed instead of bytes
  ObjectCodec objects = ObjectCodec::kNone;  // not kNone: instead of bytes; then nbytes is 0
  std::vector<ByteStep> steps;               // in writing order

  // Stored bytes are the elements of the encoded chunk in C order, as the machine has them.
  [[nodiscard]] bool raw() const {
    return !shard && steps.empty() && !swap_bytes && objects == ObjectCodec::kNone;
  }
};

// sharding_indexed: a chunk stored as a grid of smaller chunks and an index (shard.h).
struct ShardCodec {
  Shape chunk_shape;  // of an inner chunk; divides the shape of the encoded shard
  Shape grid;         // how many there are in each dimension
  CodecChain codecs;  // of each inner chunk
  bool index_at_start = false;
  bool index_big_endian = false;
  bool index_crc32c = true;
};

// What `step` makes of n bytes at most; exact for all but compressors.
std::uint64_t encoded_bound(const ByteStep& step, std::uint64_t n);
// The memory that undoing `steps` takes beside the stored bytes and the `nbytes` decoded ones, at
// most.
std::uint64_t memory_between(std::span<const ByteStep> steps, std::uint64_t nbytes);

// Throws data_loss if no writer makes so many bytes of a chunk of this chain: before any of them is
// read. Chunks of elements without a size, and shards, may have any number.
void check_stored_size(const CodecChain& chain, std::uint64_t length);

// Undoes `steps` on `stored`, which must give exactly out.size() bytes; otherwise, or for damage,
// data_loss. Returns whether a checksum covered all of `stored`: a checksum step, gzip's, zlib's or
// bzip2's own, or zstd's optional one.
bool decode_steps(std::span<const ByteStep> steps, ByteView stored, MutableByteView out);

// Memory that is used again from chunk to chunk.
class Scratch {
 public:
  // At least `size` uninitialised bytes, valid until the next call.
  MutableByteView bytes(std::size_t size);
  // Lets go of memory beyond `keep` bytes.
  void trim(std::size_t keep);

 private:
  Buffer buffer_;
};

struct DecodedBytes {
  ByteView bytes;  // borrowed from `stored` or from the scratch
  bool checksummed = false;
};
// The same without a destination: borrows `stored` where nothing has to be undone. A small hostile
// value cannot make it allocate `nbytes`: memory grows with what really decodes.
DecodedBytes decode_steps(std::span<const ByteStep> steps, ByteView stored, std::uint64_t nbytes,
                          Scratch& scratch);

// The same for a value whose decoded size is not known, but is at most `max_size`; `owned` is where
// the bytes may lie.
DecodedBytes decode_unsized(std::span<const ByteStep> steps, ByteView stored,
                            std::uint64_t max_size, Bytes& owned);

}  // namespace cairn::zarr
