// array.h -- arrays in a store: opens them, and reads and verifies boxes of them.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/base/verify_part.h>
#include <cairn/storage/kvstore.h>
#include <cairn/types.h>
#include <cairn/zarr/metadata/array_metadata.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::inline v0::zarr {

class ValueStreams;

// The resources and rules of a read.
struct ReadContext {
  Executor* executor = nullptr;  // null: default_executor()
  ByteBudget* budget = nullptr;  // bounds encoded and decoded bytes in flight; null: no bound
  // `done` grows by destination bytes; the caller sets `total`
  Progress* progress = nullptr;
  // For verify_array: the store's own checksum covers values that the store cannot locate in a
  // file, such as values inside OCDBT's B+tree nodes.
  bool inline_values_protected = false;
  // For verify_array: chunks that TensorStore refuses are damaged, though Cairn reads them.
  bool must_suit_tensorstore = false;
  // Keeps the decoders of values too large for the budget between reads of their parts; null: does
  // not keep them.
  ValueStreams* streams = nullptr;
};

// The treatment of a chunk that is not stored: read the fill value, or throw data_loss.
enum class MissingChunk : std::uint8_t { kFill, kError };

// An array in a store. Copies are cheap: they share metadata and store.
class ZarrArray {
 public:
  // Reads `<name>/.zarray` or `<name>/zarr.json`; for an empty name, the bare keys. zarr_format 0
  // opens whichever exists. Throws not_found if neither exists.
  static ZarrArray open(StorePtr store, std::string name, int zarr_format = 0,
                        MetadataCache* cache = nullptr);
  ZarrArray(StorePtr store, std::string name, std::shared_ptr<const ArrayMetadata> metadata);

  [[nodiscard]] const ArrayMetadata& metadata() const { return *metadata_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const StorePtr& store() const { return store_; }
  // Returns the key of the chunk at this grid position.
  [[nodiscard]] std::string chunk_key(std::span<const std::int64_t> chunk) const;

  // Returns the prefix of all keys below a name: "a/"; for an empty name "".
  [[nodiscard]] static std::string key_prefix(std::string_view name);
  // The same into `key`, whose memory is used again.
  static void put_key_prefix(std::string_view name, std::string& key);
  // Returns the key of the metadata below a name: "a/.zarray", "a/zarr.json"; for an empty name the
  // bare key.
  [[nodiscard]] static std::string metadata_key(std::string_view name, int zarr_format);

  // Reads the elements of `box` into `out`. `out` has the array's dtype and element_size and the
  // shape of the box; its strides are free.
  void read(const Box& box, const MutableArrayView& out, MissingChunk missing,
            const ReadContext& context = {}) const;

  // Returns the whole array without a copy, if one raw little-endian chunk in a local file (or in
  // an OCDBT data file) holds it; the chunk may be the only inner chunk of a shard. The data may be
  // unaligned, because chunks start at any file offset. Returns nullopt otherwise.
  [[nodiscard]] std::optional<Array> try_view() const;

 private:
  StorePtr store_;
  std::string name_;
  std::shared_ptr<const ArrayMetadata> metadata_;
};

// One box of one array, for reading many boxes as one plan. The pointers must stay valid until the
// read returns.
struct BoxRead {
  const ZarrArray* array = nullptr;
  const Box* box = nullptr;
  const MutableArrayView* out = nullptr;
  std::string_view label;  // prefix of error messages: the parameter name
  MissingChunk missing = MissingChunk::kError;
};
// Plans the chunks of all reads, sorts them by (file, offset) and combines neighbours. Then reads,
// decodes and copies them in parallel within the budget. Reads large raw chunks with a contiguous
// destination straight into it.
void read_boxes(std::span<const BoxRead> reads, const ReadContext& context = {});

// Returns whether the elements are strings or byte strings of any length, which read_strings reads.
inline bool has_strings(const ArrayMetadata& metadata) {
  const ObjectCodec codec = object_codec_of(metadata.codecs);
  return codec == ObjectCodec::kVlenUtf8 || codec == ObjectCodec::kVlenBytes;
}
// Returns the strings of the whole array in C order. No stored number states their size, so it
// throws unimplemented if they, or the decoded bytes of one chunk, take more than `most` bytes of
// memory. Throws invalid_argument for an array of other elements, data_loss for damage.
std::vector<std::string> read_strings(const ZarrArray& array, MissingChunk missing,
                                      std::uint64_t most);

// A range of an array's chunks, numbered in C order.
struct ChunkRun {
  std::int64_t begin = 0;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();  // default: the last chunk
};
// Reads and decodes every chunk of the array, or of a run. Reports damage (tensor = label): missing
// chunks, chunks that cannot be decoded, failed checksums. Reports whether a checksum covers every
// chunk (else `unprotected`), and the number of chunks and stored bytes. Never throws because of
// damage.
CheckedArray verify_array(const ZarrArray& array, const std::string& label, MissingChunk missing,
                          const ReadContext& context, const ChunkRun& run = {});

}  // namespace cairn::inline v0::zarr
