// array_metadata.h -- one in-memory description of an array for Zarr v2 and v3: parses it, makes it
// and writes it as JSON.
#pragma once

#include <cairn/base/json/json.h>
#include <cairn/compression.h>
#include <cairn/types.h>
#include <cairn/zarr/codec/codec_chain.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::zarr {

// How a chunk's grid position becomes a key below the array's own key.
struct ChunkKeys {
  bool c_prefix = false;  // v3 "default": "c/0/1"; for rank 0: "c"
  char separator = '.';   // v2: "0.1" or "0/1"; for rank 0: "0"
  // Returns the key of the chunk at this position.
  [[nodiscard]] std::string key(std::span<const std::int64_t> chunk) const;
  // Returns the position that has this key; nullopt if no position of this rank has it.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> position(std::string_view key,
                                                                  std::size_t rank) const;
};

// The largest metadata file of one array in bytes. No shape, codec or attributes need more.
inline constexpr std::uint64_t kMaxMetadataBytes = std::uint64_t{4} << 20U;

// The content of `.zarray` or `zarr.json`.
struct ArrayMetadata {
  int zarr_format = 2;
  Shape shape;
  Shape chunk_shape;  // shape of one stored value; for sharded arrays the shard
  DType dtype = DType::kUint8;
  // 0: elements have no fixed size; read_strings() reads them if they are strings
  std::size_t element_size = 1;
  // Cairn's name. For kOpaque the stored name; for objects with the codec that makes them bytes:
  // "|O (vlen-utf8)".
  std::string dtype_name;
  bool fill_is_null = false;  // v2 only: elements of missing chunks read as zero bytes
  // One element, little-endian; zero bytes if the fill value is null. For strings their bytes.
  Bytes fill_value;
  ChunkKeys keys;
  CodecChain codecs;  // converts the elements of one chunk to stored bytes and back
  Json attributes;
  std::vector<std::optional<std::string>> dimension_names;  // v3 only; empty if there are none

  Shape inner_chunk_shape;  // shape of a shard's innermost chunks; empty if not sharded

  // Returns the shape of the smallest piece that can be decoded alone.
  [[nodiscard]] const Shape& read_chunk_shape() const {
    return codecs.shard ? inner_chunk_shape : chunk_shape;
  }
};

// Parse `.zarray` or `zarr.json`. Throw data_loss for text that is not valid metadata, and
// unimplemented, naming it, for a type or codec that Cairn does not know.
ArrayMetadata parse_zarray(std::string_view json);
ArrayMetadata parse_zarr_json(std::string_view json);
// Returns the text of `.zarray` or `zarr.json`, byte for byte as TensorStore writes it. Throws
// unimplemented for content that TensorStore does not read: filters, lz4, types that only
// zarr-python has.
std::string metadata_text(const ArrayMetadata& metadata);

// The description of a new array.
struct NewArray {
  int zarr_format = 2;
  Shape shape;
  Shape chunk_shape;  // shape of one stored value; extents are at least 1
  DType dtype = DType::kFloat32;
  Compression compression = {};
  // v3: shape of the inner chunks. Empty: the chunk shape, so that each value is a shard of one
  // chunk, as Orbax writes it.
  Shape inner_chunk_shape = {};
  // v3: appends a crc32c to every inner chunk. It costs less than a checksum in a zstd frame and
  // protects uncompressed chunks, too.
  bool crc32c = false;
};
// Returns the new array's metadata with Orbax's defaults: zstd level 1 in v2 and level 3 in v3,
// unless `compression` says otherwise. Throws invalid_argument for shapes that do not match, and
// unimplemented for a type that no deployed reader of the format accepts.
ArrayMetadata make_metadata(const NewArray& array);

// Caches parsed metadata by its text, because the arrays of a checkpoint often differ only in their
// names. For one thread: a lock for each of many arrays costs more than parsing again.
class MetadataCache {
 public:
  // Parses like parse_zarray (zarr_format 2) or parse_zarr_json (3).
  std::shared_ptr<const ArrayMetadata> parse(int zarr_format, std::string_view text);

 private:
  std::map<std::string, std::shared_ptr<const ArrayMetadata>, std::less<>> parsed_[2];  // v2, v3
};

}  // namespace cairn::inline v0::zarr
