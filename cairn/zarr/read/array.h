// array.h -- arrays in a store: opening one, reading and verifying boxes of it.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/kvstore.h>
#include <cairn/types.h>
#include <cairn/verify_report.h>
#include <cairn/zarr/metadata/array_metadata.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::zarr {

class ValueStreams;

struct ReadContext {
  Executor* executor = nullptr;  // null: default_executor()
  ByteBudget* budget = nullptr;  // bounds encoded and decoded bytes in flight; null: no bound
  // `done` grows by destination bytes; `total` is the caller's to set
  Progress* progress = nullptr;
  // For verify_array: values that the store cannot locate in a file are covered by a checksum of
  // the store's own, as those inside OCDBT's B+tree nodes are.
  bool inline_values_protected = false;
  // Where to keep decoders of values too large for the budget between reads of their parts; null:
  // nowhere.
  ValueStreams* streams = nullptr;
};

// What to do with a chunk that is not stored.
enum class MissingChunk : std::uint8_t { kFill, kError };

// An array in a store. Copyable, cheap: shares metadata and store.
class ZarrArray {
 public:
  // Reads `<name>/.zarray` or `<name>/zarr.json` (for name "": bare keys). zarr_format 0: whichever
  // is there. not_found if there is neither.
  static ZarrArray open(StorePtr store, std::string name, int zarr_format = 0,
                        MetadataCache* cache = nullptr);
  ZarrArray(StorePtr store, std::string name, std::shared_ptr<const ArrayMetadata> metadata);

  [[nodiscard]] const ArrayMetadata& metadata() const { return *metadata_; }
  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] const StorePtr& store() const { return store_; }
  [[nodiscard]] std::string chunk_key(std::span<const std::int64_t> chunk) const;

  // What the keys below a name begin with: "a/"; for name "" nothing.
  [[nodiscard]] static std::string key_prefix(std::string_view name);
  // Where the metadata lies below a name: "a/.zarray", "a/zarr.json"; for name "" the bare key.
  [[nodiscard]] static std::string metadata_key(std::string_view name, int zarr_format);

  // Reads the elements of `box` into `out` (dtype and element_size of the array, shape of the box,
  // any strides).
  void read(const Box& box, const MutableArrayView& out, MissingChunk missing,
            const ReadContext& context = {}) const;

  // The whole array without a copy, where one raw little-endian chunk of a local file (or of an
  // OCDBT data file) is it, or a shard of one such inner chunk. Its data may be unaligned: chunks
  // lie wherever the file has them.
  [[nodiscard]] std::optional<Array> try_view() const;

 private:
  StorePtr store_;
  std::string name_;
  std::shared_ptr<const ArrayMetadata> metadata_;
};

// One box of one array, for reading many as one plan. Refers to what it names, all of which
// outlives the read.
struct BoxRead {
  const ZarrArray* array = nullptr;
  const Box* box = nullptr;
  const MutableArrayView* out = nullptr;
  std::string_view label;  // put in front of errors: the parameter name
  MissingChunk missing = MissingChunk::kError;
};
// Plans all chunks of all reads, sorts them by (file, offset), coalesces neighbours, and reads,
// decodes and scatters them in parallel under the budget. Large raw chunks that land contiguously
// are read straight into their destination.
void read_boxes(std::span<const BoxRead> reads, const ReadContext& context = {});

// Some chunks of an array, in C order.
struct ChunkRun {
  std::int64_t begin = 0;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();  // or as many as there are
};
// Reads and decodes every chunk of the array, or those of a run, and says what is wrong (tensor =
// label): missing chunks, undecodable ones, failed checksums; and whether every chunk is covered by
// some checksum (else `unprotected`). Counts chunks and stored bytes. Never throws for damage.
CheckedArray verify_array(const ZarrArray& array, const std::string& label, MissingChunk missing,
                          const ReadContext& context, const ChunkRun& run = {});

}  // namespace cairn::zarr
