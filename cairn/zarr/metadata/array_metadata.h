// array_metadata.h -- one in-memory description of an array for Zarr v2 and v3: parsed, made, and
// written as text.
#pragma once

#include <cairn/base/json.h>
#include <cairn/compression.h>
#include <cairn/types.h>
#include <cairn/zarr/codec/codec_chain.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::zarr {

// How a chunk's grid position becomes a key below the array's own.
struct ChunkKeys {
  bool c_prefix = false;  // v3 "default": c/0/1, rank 0: c
  char separator = '.';   // v2: "0.1" or "0/1", rank 0: 0
  [[nodiscard]] std::string key(std::span<const std::int64_t> chunk) const;
  // The position of which this is the key; nullopt if there is none of this rank.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> position(std::string_view key,
                                                                  std::size_t rank) const;
};

// Bytes of the metadata of one array, at most: no shape, codec or attributes take more.
inline constexpr std::uint64_t kMaxMetadataBytes = std::uint64_t{4} << 20U;

// Everything `.zarray` or `zarr.json` says.
struct ArrayMetadata {
  int zarr_format = 2;
  Shape shape;
  Shape chunk_shape;  // of one stored value: for sharded arrays the shard
  DType dtype = DType::kUint8;
  // 0: elements have no fixed size; such an array can be verified, but not read
  std::size_t element_size = 1;
  // Cairn's name, or as stored for kOpaque ("|O (vlen-utf8)" with what makes objects bytes)
  std::string dtype_name;
  bool fill_is_null = false;  // v2 only: missing chunks read as zero bytes
  Bytes fill_value;           // one element, little-endian; zero bytes if null
  ChunkKeys keys;
  CodecChain codecs;  // elements of one chunk to stored bytes and back
  Json attributes;
  std::vector<std::optional<std::string>> dimension_names;  // v3; empty if there are none

  Shape inner_chunk_shape;  // of the innermost chunks of shards; empty if not sharded

  // Shape of the smallest piece that can be decoded alone.
  [[nodiscard]] const Shape& read_chunk_shape() const {
    return codecs.shard ? inner_chunk_shape : chunk_shape;
  }
};

// Throw data_loss for text that is no such metadata, unimplemented for a type or codec Cairn does
// not know (named).
ArrayMetadata parse_zarray(std::string_view json);
ArrayMetadata parse_zarr_json(std::string_view json);
// The text of `.zarray` or `zarr.json`, byte for byte as TensorStore writes it. Throws
// unimplemented for what TensorStore does not read: filters, lz4, types of zarr-python's own.
std::string metadata_text(const ArrayMetadata& metadata);

// An array to be made.
struct NewArray {
  int zarr_format = 2;
  Shape shape;
  Shape chunk_shape;  // of one stored value; extents of at least 1
  DType dtype = DType::kFloat32;
  Compression compression = {};
  // v3: shape of the inner chunks; empty: as the chunk, so that each value is a shard of one, as
  // Orbax writes them.
  Shape inner_chunk_shape = {};
  // v3: a crc32c behind every inner chunk, which costs less than one in a zstd frame and protects
  // uncompressed chunks, too.
  bool crc32c = false;
};
// Its metadata, as Orbax has it: zstd level 1 in v2, 3 in v3, unless the compression says
// otherwise. Throws invalid_argument for shapes that do not fit together, unimplemented for a type
// that no deployed reader of the format takes.
ArrayMetadata make_metadata(const NewArray& array);

// Parsed metadata by its text: the arrays of a checkpoint often differ in nothing but their names.
// Thread-safe.
class MetadataCache {
 public:
  // As parse_zarray (zarr_format 2) or parse_zarr_json (3).
  std::shared_ptr<const ArrayMetadata> parse(int zarr_format, std::string_view text);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const ArrayMetadata>, std::less<>> parsed_[2];  // v2, v3
};

}  // namespace cairn::zarr
