// codec_chain.h -- the closed set of Zarr codecs, and the chain that converts between the elements
// of a chunk and its stored bytes.
//
//   elements --transpose--> --bytes (byte order) or sharding_indexed-->
//            --step--> ... --step--> stored value
//
// Both formats use one chain. In v2 the order F is a transpose, and the filters and the compressor
// are steps.
#pragma once

#include <cairn/base/byte_order.h>
#include <cairn/codec/compress.h>
#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

namespace cairn::inline v0::zarr {

// A general compressor. Its output describes itself, so only writers use `options`.
struct CompressStep {
  Codec codec = Codec::kZstd;
  CompressOptions options = {};
  bool operator==(const CompressStep&) const = default;
};
// A CRC-32C in four little-endian bytes after the other bytes (numcodecs also allows it before
// them).
struct Crc32cStep {
  bool at_start = false;
  bool operator==(const Crc32cStep&) const = default;
};
// The other checksums of numcodecs: four little-endian bytes after or before the other bytes.
enum class Checksum : std::uint8_t { kCrc32, kAdler32, kFletcher32, kLookup3 };
struct ChecksumStep {
  Checksum kind = Checksum::kCrc32;
  bool at_start = false;
  std::uint32_t seed = 0;  // of lookup3
  bool operator==(const ChecksumStep&) const = default;
};

// The element type and byte order that a filter's configuration names.
struct NumberType {
  DType dtype = DType::kUint8;
  bool big_endian = false;
  // Whether it has the machine's byte order.
  [[nodiscard]] bool is_native() const {
    return big_endian == kBigEndianMachine || dtype_size(dtype) == 1;
  }
  bool operator==(const NumberType&) const = default;
};
// numcodecs.shuffle: the first byte of every element, then the second byte of every element, and so
// on. Trailing bytes that do not fill an element stay as they are.
struct ShuffleStep {
  std::size_t element_size = 1;
  bool operator==(const ShuffleStep&) const = default;
};
// numcodecs.delta: each element except the first is stored as its difference to the one before.
// Integers wrap around.
struct DeltaStep {
  NumberType decoded;
  NumberType stored;
  bool operator==(const DeltaStep&) const = default;
};
// numcodecs.astype and quantize: elements are stored as another type.
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
// numcodecs.packbits: one byte that holds the number of padding bits in the last byte, then 8 bools
// per byte, the first in the highest bit.
struct PackBitsStep {
  bool operator==(const PackBitsStep&) const = default;
};
// One bytes-to-bytes step of a chain.
using ByteStep = std::variant<CompressStep, Crc32cStep, ChecksumStep, ShuffleStep, DeltaStep,
                              CastStep, ScaleStep, PackBitsStep>;

// Returns whether the step is a zstd compressor.
inline bool is_zstd(const ByteStep& step) {
  const auto* compress = std::get_if<CompressStep>(&step);
  return compress != nullptr && compress->codec == Codec::kZstd;
}

// Returns whether the elements of a chunk are stored as they are, followed by their CRC-32C.
inline bool is_only_crc32c(std::span<const ByteStep> steps) {
  return steps.size() == 1 && steps[0] == ByteStep(Crc32cStep{});
}

struct ShardCodec;

// The codec that converts elements without a fixed size to bytes (objects.h).
enum class ObjectCodec : std::uint8_t {
  kNone,       // elements have a fixed size
  kVlenUtf8,   // strings
  kVlenBytes,  // byte strings: as kVlenUtf8, without the rules of UTF-8
  kOther,      // JSON, MessagePack, pickles: not read; Cairn checks only the steps around them
};

// All codecs of one array, or of the inner chunks of a shard.
struct CodecChain {
  // The transpose: dimension i of the encoded chunk is dimension order[i] of the decoded chunk.
  // Empty: no transpose.
  std::vector<std::size_t> order;
  Shape shape;                               // shape of the encoded chunk, after the transpose
  std::uint64_t nbytes = 0;                  // size of the chunk's elements in bytes
  bool big_endian = false;                   // the stored order of the elements
  bool swap_bytes = false;                   // the machine's order is the other one
  std::shared_ptr<const ShardCodec> shard;   // not null: sharding_indexed replaces bytes
  ObjectCodec objects = ObjectCodec::kNone;  // not kNone: replaces bytes, and nbytes is 0
  std::vector<ByteStep> steps;               // in writing order

  // Elements that Cairn does not interpret stay as they are.
  void set_order(bool is_big_endian, DType dtype) {
    const bool has_order = dtype != DType::kOpaque && dtype_size(dtype) > 1;
    big_endian = has_order && is_big_endian;
    swap_bytes = has_order && is_big_endian != kBigEndianMachine;
  }

  // Returns whether the stored bytes are the elements of the encoded chunk, in C order and in the
  // machine's representation.
  [[nodiscard]] bool raw() const {
    return !shard && steps.empty() && !swap_bytes && objects == ObjectCodec::kNone;
  }

  // Returns the values of the dimensions in the order of the encoded chunk's dimensions. Only for
  // chains with a transpose.
  template <class T>
  [[nodiscard]] std::vector<T> transposed(const std::vector<T>& values) const {
    std::vector<T> out(values.size());
    for (std::size_t i = 0; i < order.size(); ++i) out[i] = values[order[i]];
    return out;
  }
};

// The sharding_indexed codec: stores a chunk as a grid of smaller chunks and an index (shard.h).
struct ShardCodec {
  Shape chunk_shape;  // shape of an inner chunk; divides the shape of the encoded shard
  Shape grid;         // number of inner chunks in each dimension
  CodecChain codecs;  // codecs of each inner chunk
  bool index_at_start = false;
  bool index_big_endian = false;
  bool index_crc32c = true;
};

// Returns the codec of elements without a fixed size: the chain's, or that of its inner chunks.
inline ObjectCodec object_codec_of(const CodecChain& chain) {
  return chain.shard ? object_codec_of(chain.shard->codecs) : chain.objects;
}

// Returns the largest size that `step` makes of n bytes; the exact size for all steps except
// compressors.
std::uint64_t encoded_bound(const ByteStep& step, std::uint64_t n);
// Returns the most memory that undoing `steps` takes in addition to the stored bytes and the
// `nbytes` decoded bytes.
std::uint64_t memory_between(std::span<const ByteStep> steps, std::uint64_t nbytes);

// Throws data_loss if `length` is larger than any writer makes of a chunk of this chain. Call it
// before reading the bytes. Shards and chunks of elements without a fixed size have no limit.
void check_stored_size(const CodecChain& chain, std::uint64_t length);

// Returns the frames of which the data inside an undone step may consist, if `outside` are allowed
// for that step. TensorStore lets data follow the first frame only where it is the stored value.
inline Frames frames_inside(Frames outside) {
  return outside == Frames::kAny ? Frames::kAny : Frames::kOne;
}

// Undoes `steps` on `stored` and writes the result to `out`. Throws data_loss for damage and unless
// the result has exactly out.size() bytes. Returns whether a checksum covered all of `stored`: a
// checksum step, the checksum of gzip, zlib or bzip2, or zstd's optional one.
bool decode_steps(std::span<const ByteStep> steps, ByteView stored, MutableByteView out);

// A memory buffer that is reused from chunk to chunk.
class Scratch {
 public:
  // Returns at least `size` uninitialised bytes, valid until the next call.
  MutableByteView bytes(std::size_t size);
  // Frees the buffer if it is larger than `keep` bytes.
  void trim(std::size_t keep);

 private:
  Buffer buffer_;
};

// The result of decoding, and whether a checksum covered the input.
struct DecodedBytes {
  ByteView bytes;  // borrowed from `stored` or from the scratch memory
  bool checksummed = false;
};
// Like decode_steps above, without a destination. Borrows `stored` if there is nothing to undo. A
// small hostile value cannot make it allocate `nbytes`: memory grows with the bytes that really
// decode. `frames` are
// allowed for the last step.
DecodedBytes decode_steps(std::span<const ByteStep> steps, ByteView stored, std::uint64_t nbytes,
                          Scratch& scratch, Frames frames = Frames::kAny);

// Like decode_steps above, for a value whose decoded size is unknown but at most `max_size`.
// `owned` may receive the decoded bytes.
DecodedBytes decode_unsized(std::span<const ByteStep> steps, ByteView stored,
                            std::uint64_t max_size, Bytes& owned);

}  // namespace cairn::inline v0::zarr
