// encode.h -- from the elements of one chunk to its stored value: cast, pad, transpose, swap,
// shard, compress.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/types.h>
#include <cairn/zarr/read/array.h>
#include <cairn/zarr/write/pieces.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace cairn::zarr {

// What a writer may choose that no reader has to know.
struct EncodeOptions {
  enum class Effort : std::uint8_t {
    kAuto,          // level 1 where a sample says that it pays, else raw blocks
    kAsInMetadata,  // the level in the metadata
  };
  enum class Checksum : std::uint8_t {
    kAlways,        // in every zstd frame
    kAsInMetadata,  // where the metadata asks for it
  };
  enum class FillChunks : std::uint8_t {
    kStore,  // as Orbax does, which refuses missing chunks
    // chunks that hold nothing but the fill value (bitwise) are not stored, as in TensorStore by
    // default
    kSkip,
  };
  Effort zstd_effort = Effort::kAuto;
  Checksum zstd_checksum = Checksum::kAlways;
  FillChunks fill_chunks = FillChunks::kStore;
  std::size_t threads = 1;       // that may work at one chunk, where a codec can use them
  Executor* executor = nullptr;  // for the inner chunks of a shard; not given: one after the other
};
// What an array made with this compression is written with.
EncodeOptions encode_options(const Compression& compression);

// Elements that a chunk gets, in the chunk's coordinates. Of any interpreted type: they are cast to
// the array's.
struct ChunkSource {
  Box box;
  ArrayView from;  // of the box's shape
};

// Encodes one chunk. Its scratch memory belongs to a task; what it makes may point into it and into
// the sources.
class ChunkEncoder {
 public:
  ChunkEncoder(const ArrayMetadata& metadata, const EncodeOptions& options)
      : metadata_(metadata), options_(options) {}

  // Takes the sources of the next chunk, later ones over earlier ones, and looks at some of their
  // bytes. Returns how much memory encoding will take at most; what no source covers becomes the
  // fill value.
  std::uint64_t begin(std::vector<ChunkSource> sources);
  // The value in pieces, which are valid until the next begin and as long as the sources; empty if
  // the chunk need not be stored, because every element is the fill value.
  const Pieces& encode(Scratch& elements, Scratch& encoded);

 private:
  using Sources = std::vector<ChunkSource>;

  bool encode_chunk(const CodecChain& chain, Sources sources);
  bool encode_shard(const CodecChain& chain, const Sources& sources);
  bool join_shard(const ShardCodec& shard, std::vector<Pieces>& inner);
  bool encode_elements(const CodecChain& chain, const Sources& sources);
  ByteView gather(const CodecChain& chain, const Sources& sources);
  void gather_swapped(const ArrayView& from, const MutableArrayView& to) const;
  void apply(const ByteStep& step, std::size_t first);
  void compress(const CompressStep& step, std::size_t first);
  [[nodiscard]] std::optional<ByteView> borrow(const CodecChain& chain,
                                               const Sources& sources) const;
  [[nodiscard]] std::optional<ByteView> borrowed() const;
  [[nodiscard]] bool only_fill(const CodecChain& chain, ByteView elements) const;
  [[nodiscard]] std::uint64_t encoded_bytes(const CodecChain& chain) const;

  const ArrayMetadata& metadata_;
  const EncodeOptions& options_;
  Sources sources_;
  // what a sample of the only elements has said about compressing them
  std::optional<bool> worthwhile_;
  std::uint64_t gathered_bytes_ = 0;
  std::uint64_t encoded_bytes_ = 0;
  MutableByteView gathered_;  // what is left of the scratch memory
  MutableByteView encoded_;
  Pieces pieces_;
};

// Whether zstd at level 1 would make `elements` smaller by a tenth or more, judged by some blocks
// of them.
bool worth_compressing(ByteView elements);

}  // namespace cairn::zarr
