// encode.h -- encodes the elements of one chunk as its stored value: casts, pads, transposes,
// swaps, shards, compresses.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/types.h>
#include <cairn/zarr/read/array.h>
#include <cairn/zarr/write/compression_choice.h>
#include <cairn/zarr/write/pieces.h>

#include <cstdint>
#include <future>
#include <optional>
#include <vector>

namespace cairn::inline v0::zarr {

// The choices of a writer that readers need not know.
struct EncodeOptions {
  enum class Effort : std::uint8_t {
    kAuto,          // level 1 or raw blocks, as `choice` decides
    kSmallest,      // level 9, or raw blocks if they are smaller
    kAsInMetadata,  // the level in the metadata
  };
  enum class Checksum : std::uint8_t {
    kAlways,        // in every zstd frame
    kAsInMetadata,  // only if the metadata asks for it
  };
  enum class FillChunks : std::uint8_t {
    kStore,  // as Orbax does, whose reader refuses missing chunks
    // do not store chunks that contain only the fill value (compared bitwise), as TensorStore does
    // by default
    kSkip,
  };
  Effort zstd_effort = Effort::kAuto;
  Checksum zstd_checksum = Checksum::kAlways;
  FillChunks fill_chunks = FillChunks::kStore;
  // Decides for kAuto. Null: a chunk is compressed if a sample of it shrinks by a tenth or more.
  // Frames then depend only on the elements, so one thread makes each.
  CompressionChoice* choice = nullptr;
  std::size_t threads = 1;  // threads for one chunk, if a codec can use them
  // for the inner chunks of a shard; null: encodes them one after the other
  Executor* executor = nullptr;
};
// Returns the options for writing an array that was made with this compression. `choice` is for
// Compression::kAuto.
EncodeOptions encode_options(const Compression& compression, CompressionChoice* choice = nullptr);

// Elements of a chunk, in the chunk's coordinates. They may have any interpreted type; the encoder
// casts them to the array's type.
struct ChunkSource {
  Box box;
  ArrayView from;  // has the box's shape
};

// Encodes one chunk. The task provides the scratch memory. The result may point into that memory
// and into the sources.
class ChunkEncoder {
 public:
  ChunkEncoder(const ArrayMetadata& metadata, const EncodeOptions& options)
      : metadata_(metadata), options_(options) {}

  // Takes the sources of the next chunk; later sources overwrite earlier ones. Reads a sample of
  // their bytes. Returns the most memory that encoding will take. Elements that no source covers
  // become the fill value.
  std::uint64_t begin(std::vector<ChunkSource> sources);
  // The same for a whole chunk whose elements are contiguous, in C order and in the array's type.
  // The chain must have no shard, no transpose and no swapped bytes. The elements must outlive the
  // encoding.
  std::uint64_t begin(ByteView elements);
  // Returns the value in pieces, which stay valid until the next begin() and as long as the
  // sources. Returns empty pieces if the chunk need not be stored because every element is the fill
  // value.
  const Pieces& encode(Scratch& elements, Scratch& encoded);
  // Whether the last piece is still being made, and waits for it. The destructor waits, too.
  [[nodiscard]] bool ends_later() const { return end_.valid(); }
  void wait_for_end() { end_.get(); }
  // What encode() made of the elements.
  [[nodiscard]] const ChunkOutcome& outcome() const { return outcome_; }

 private:
  using Sources = std::vector<ChunkSource>;
  struct Decision {
    bool compress = false;
    bool is_worthwhile = false;  // compression would save a tenth, or was not looked at
  };

  // Encode a chunk, a shard or the elements of one chunk into pieces_. Return false if nothing need
  // be stored.
  bool encode_chunk(const CodecChain& chain, Sources sources);
  bool encode_shard(const CodecChain& chain, const Sources& sources);
  // Appends a shard's inner chunks and its index to pieces_.
  bool join_shard(const ShardCodec& shard, std::vector<Pieces>& inner);
  bool encode_elements(const CodecChain& chain, const Sources& sources);
  bool encode_elements(const CodecChain& chain, ByteView elements);
  // Takes a sample of contiguous elements. Returns the most memory that encoding will take.
  std::uint64_t sample(const std::optional<ByteView>& elements);
  // Copies the sources into scratch memory, in the chunk's order; the rest is the fill value.
  ByteView gather(const CodecChain& chain, const Sources& sources);
  void gather_swapped(const ArrayView& from, const MutableArrayView& to) const;
  // Apply a step to the pieces from number `first` on.
  void apply(const ByteStep& step, std::size_t first);
  void compress(const CompressStep& step, std::size_t first);
  // The effort kAuto: compresses the bytes, or borrows them as a frame of raw blocks.
  void compress_or_borrow(CompressOptions options, ByteView in);
  std::size_t compress_to_scratch(Codec codec, const CompressOptions& options, ByteView in);
  void take_scratch(std::size_t n);  // its first n bytes are the next piece
  void borrow_raw(ByteView in);
  // Starts to hash a large chunk on another thread. Returns false if it must be hashed now.
  bool hash_aside(ByteView in, MutableByteView checksum);
  [[nodiscard]] Decision decide(ByteView elements) const;
  // Return the elements to be stored if one source already holds them contiguously.
  [[nodiscard]] std::optional<ByteView> borrow(const CodecChain& chain,
                                               const Sources& sources) const;
  [[nodiscard]] std::optional<ByteView> borrowed() const;
  // Returns whether all elements equal the fill value, bit by bit.
  [[nodiscard]] bool only_fill(const CodecChain& chain, ByteView elements) const;
  // Returns the scratch memory in bytes that encoding a chunk of this chain takes.
  [[nodiscard]] std::uint64_t encoded_bytes(const CodecChain& chain) const;

  const ArrayMetadata& metadata_;
  const EncodeOptions& options_;
  Sources sources_;
  std::optional<ByteView> whole_;     // the elements of begin(ByteView), which has no sources
  std::optional<Decision> decision_;  // about the only elements
  ChunkOutcome outcome_;
  std::uint64_t gathered_bytes_ = 0;
  std::uint64_t encoded_bytes_ = 0;
  MutableByteView gathered_;  // the unused part of the scratch memory
  MutableByteView encoded_;
  Pieces pieces_;
  std::future<void> end_;  // destroyed first: it writes into pieces_
};

// Estimates from some blocks of `elements` what zstd at level 1 makes of them.
CompressionEstimate estimate_compression(ByteView elements);
// Returns whether the estimate of a chunk of this size is made without a trial.
bool is_small_chunk(std::uint64_t bytes);
// Returns whether it would shrink them by at least a tenth.
bool worth_compressing(ByteView elements);

}  // namespace cairn::inline v0::zarr
