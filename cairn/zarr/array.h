// array.h -- one in-memory description of an array for Zarr v2 and v3; making and opening one, reading and writing boxes of it.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/base/json.h>
#include <cairn/compression.h>
#include <cairn/kvstore.h>
#include <cairn/types.h>
#include <cairn/verify_report.h>
#include <cairn/zarr/codec_chain.h>

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::zarr {

// How a chunk's grid position becomes a key below the array's own.
struct ChunkKeys {
  bool c_prefix = false;  // v3 "default": c/0/1, rank 0: c
  char separator = '.';   // v2: "0.1" or "0/1", rank 0: 0
  [[nodiscard]] std::string key(std::span<const std::int64_t> chunk) const;
  // The position of which this is the key; nullopt if there is none of this rank.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> position(std::string_view key, std::size_t rank) const;
};

// Bytes of the metadata of one array, at most: no shape, codec or attributes take more.
inline constexpr std::uint64_t kMaxMetadataBytes = std::uint64_t{4} << 20U;

// Everything `.zarray` or `zarr.json` says.
struct ArrayMetadata {
  int zarr_format = 2;
  Shape shape;
  Shape chunk_shape;  // of one stored value: for sharded arrays the shard
  DType dtype = DType::kUint8;
  std::size_t element_size = 1;  // 0: elements have no fixed size; such an array can be verified, but not read
  std::string dtype_name;        // Cairn's name, or as stored for kOpaque ("|O (vlen-utf8)" with what makes objects bytes)
  bool fill_is_null = false;     // v2 only: missing chunks read as zero bytes
  Bytes fill_value;              // one element, little-endian; zero bytes if null
  ChunkKeys keys;
  CodecChain codecs;  // elements of one chunk to stored bytes and back
  Json attributes;
  std::vector<std::optional<std::string>> dimension_names;  // v3; empty if there are none

  Shape inner_chunk_shape;  // of the innermost chunks of shards; empty if not sharded

  // Shape of the smallest piece that can be decoded alone.
  [[nodiscard]] const Shape& read_chunk_shape() const { return codecs.shard ? inner_chunk_shape : chunk_shape; }
};

// Throw data_loss for text that is no such metadata, unimplemented for a type or codec Cairn does not know (named).
ArrayMetadata parse_zarray(std::string_view json);
ArrayMetadata parse_zarr_json(std::string_view json);
// The text of `.zarray` or `zarr.json`, byte for byte as TensorStore writes it. Throws unimplemented for what TensorStore does
// not read: filters, lz4, types of zarr-python's own.
std::string metadata_text(const ArrayMetadata& metadata);

// An array to be made.
struct NewArray {
  int zarr_format = 2;
  Shape shape;
  Shape chunk_shape;  // of one stored value; extents of at least 1
  DType dtype = DType::kFloat32;
  Compression compression = {};
  // v3: shape of the inner chunks; empty: as the chunk, so that each value is a shard of one, as Orbax writes them.
  Shape inner_chunk_shape = {};
  // v3: a crc32c behind every inner chunk, which costs less than one in a zstd frame and protects uncompressed chunks, too.
  bool crc32c = false;
};
// Its metadata, as Orbax has it: zstd level 1 in v2, 3 in v3, unless the compression says otherwise. Throws invalid_argument
// for shapes that do not fit together, unimplemented for a type that no deployed reader of the format takes.
ArrayMetadata make_metadata(const NewArray& array);

// Parsed metadata by its text: the arrays of a checkpoint often differ in nothing but their names. Thread-safe.
class MetadataCache {
 public:
  // As parse_zarray (zarr_format 2) or parse_zarr_json (3).
  std::shared_ptr<const ArrayMetadata> parse(int zarr_format, std::string_view text);

 private:
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<const ArrayMetadata>, std::less<>> parsed_[2];  // v2, v3
};

class ValueStreams;

struct ReadContext {
  Executor* executor = nullptr;  // null: default_executor()
  ByteBudget* budget = nullptr;  // bounds encoded and decoded bytes in flight; null: no bound
  Progress* progress = nullptr;  // `done` grows by destination bytes; `total` is the caller's to set
  // For verify_array: values that the store cannot locate in a file are covered by a checksum of the store's own, as those
  // inside OCDBT's B+tree nodes are.
  bool inline_values_protected = false;
  // Where to keep decoders of values too large for the budget between reads of their parts; null: nowhere.
  ValueStreams* streams = nullptr;
};

// What to do with a chunk that is not stored.
enum class MissingChunk : std::uint8_t { kFill, kError };

// An array in a store. Copyable, cheap: shares metadata and store.
class ZarrArray {
 public:
  // Reads `<name>/.zarray` or `<name>/zarr.json` (for name "": bare keys). zarr_format 0: whichever is there.
  // not_found if there is neither.
  static ZarrArray open(StorePtr store, std::string name, int zarr_format = 0, MetadataCache* cache = nullptr);
  ZarrArray(StorePtr store, std::string name, std::shared_ptr<const ArrayMetadata> metadata);

  [[nodiscard]] const ArrayMetadata& metadata() const { return *metadata_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const StorePtr& store() const { return store_; }
  [[nodiscard]] std::string chunk_key(std::span<const std::int64_t> chunk) const;

  // What the keys below a name begin with: "a/"; for name "" nothing.
  [[nodiscard]] static std::string key_prefix(std::string_view name);
  // Where the metadata lies below a name: "a/.zarray", "a/zarr.json"; for name "" the bare key.
  [[nodiscard]] static std::string metadata_key(std::string_view name, int zarr_format);

  // Reads the elements of `box` into `out` (dtype and element_size of the array, shape of the box, any strides).
  void read(const Box& box, const MutableArrayView& out, MissingChunk missing, const ReadContext& context = {}) const;

  // The whole array without a copy, where one raw little-endian chunk of a local file (or of an OCDBT data file) is it, or
  // a shard of one such inner chunk. Its data may be unaligned: chunks lie wherever the file has them.
  [[nodiscard]] std::optional<Array> try_view() const;

 private:
  StorePtr store_;
  std::string name_;
  std::shared_ptr<const ArrayMetadata> metadata_;
};

// One box of one array, for reading many as one plan. Refers to what it names, all of which outlives the read.
struct BoxRead {
  const ZarrArray* array = nullptr;
  const Box* box = nullptr;
  const MutableArrayView* out = nullptr;
  std::string_view label;  // put in front of errors: the parameter name
  MissingChunk missing = MissingChunk::kError;
};
// Plans all chunks of all reads, sorts them by (file, offset), coalesces neighbours, and reads, decodes and scatters them
// in parallel under the budget. Large raw chunks that land contiguously are read straight into their destination.
void read_boxes(std::span<const BoxRead> reads, const ReadContext& context = {});

// Some chunks of an array, in C order.
struct ChunkRun {
  std::int64_t begin = 0;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();  // or as many as there are
};
// Reads and decodes every chunk of the array, or those of a run, and says what is wrong (tensor = label): missing chunks,
// undecodable ones, failed checksums; and whether every chunk is covered by some checksum (else `unprotected`).
// Counts chunks and stored bytes. Never throws for damage.
CheckedArray verify_array(const ZarrArray& array, const std::string& label, MissingChunk missing, const ReadContext& context,
                          const ChunkRun& run = {});

}  // namespace cairn::zarr
