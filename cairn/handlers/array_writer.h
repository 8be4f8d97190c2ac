// array_writer.h -- stores the arrays of one pytree. It first chooses chunk shapes. Then it writes
// values to a sink in batches that fit the memory limit.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/base/work_partition.h>
#include <cairn/checkpoint.h>
#include <cairn/compression.h>
#include <cairn/kvstore/reusable_values.h>
#include <cairn/kvstore/value_fingerprints.h>
#include <cairn/orbax/byte_limiter.h>
#include <cairn/orbax/handlers.h>
#include <cairn/orbax/item_storage.h>
#include <cairn/zarr/write/write_array.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

namespace cairn::inline v0::handlers {

// Returns the shape of the pieces in which an array is stored.
inline const Shape& piece_shape(const StoreArray& array) {
  return array.write_shape.empty() ? array.shape : array.write_shape;
}

// Limits the copies of device arrays to the host: what is copied waits in memory until it is
// written.
struct DeviceCopies {
  // bytes copied at once; 0: as much as other fetched elements. Equal in all processes, because
  // larger arrays are cut into smaller chunks.
  std::uint64_t bytes = 0;
  std::shared_ptr<ByteLimiter> limiter = {};  // shared with other saves; null: no limit
};

// Options for all arrays of a writer.
struct ArrayWriteOptions {
  int zarr_format = 2;
  Compression compression;
  zarr::CompressionChoice* choice = nullptr;  // for Compression::kAuto, as in EncodeOptions
  // The user's target. nullopt: Cairn chooses; see free_chunk_bytes.
  std::optional<std::int64_t> chunk_bytes;
  // Arrays whose chunks the user has left to Cairn are cut along leading dimensions into chunks of
  // at most this size, if their values have checksums or are compressed. One core handles a value,
  // so an array in one value would be checked or decompressed by one core alone. And whoever reads
  // a part of an array reads all of each value that has some of it. Arrays that are stored raw have
  // nothing to compute, and remain one chunk, which Checkpoint::view needs.
  std::int64_t free_chunk_bytes = std::int64_t{16} << 20U;
  // size of a database's data files; 0: no limit. No chunk is larger.
  std::optional<std::int64_t> file_bytes;
  std::uint64_t memory = std::uint64_t{1} << 30U;  // bytes in addition to the arrays
  // Of these: what values on their way to an object store may take; less than half of them.
  std::uint64_t upload_memory = 0;
  DeviceCopies copies = {};      // instead of a share of `memory`
  Executor* executor = nullptr;  // null: the default one of the process
  // Counts the bytes of the elements of this process: in total on construction, done when they are
  // written. Null: nothing is counted.
  Progress* progress = nullptr;
  // This process writes this share of the chunks of fetched arrays. Other processes plan the same
  // arrays and write the rest.
  WorkShare share = {};
  SavedFingerprints* fingerprints = nullptr;  // as in zarr::WriteContext
  // The arrays that are stored as they are, with a crc32c for each chunk; parallel to the arrays.
  // Empty: none. Only for Zarr v3.
  std::vector<bool> is_raw = {};
};

// Fills boxes of arrays that have no elements of their own (neither `data` nor `copy` nor parts);
// `tensor` is the position of the array. The callee may modify the requests.
using FetchBoxesFn = std::function<void(std::span<ReadRequest>)>;

// Plans the arrays on construction and writes them on request.
class ArrayWriter {
 public:
  // Plans the arrays, which must outlive the writer. Throws, naming the array, what make_metadata
  // and choose_chunk_shape throw.
  ArrayWriter(std::vector<const StoreArray*> arrays, ArrayWriteOptions options);

  // The shape of the stored chunks, and of the smallest pieces that can be read alone.
  [[nodiscard]] const Shape& chunk_shape(std::size_t array) const {
    return opened_[array].metadata().chunk_shape;
  }
  [[nodiscard]] const Shape& read_chunk_shape(std::size_t array) const {
    return opened_[array].metadata().read_chunk_shape();
  }
  // Whether the array's metadata or one of its chunks has this key below the array's name.
  [[nodiscard]] bool has_key(std::size_t array, std::string_view key) const;
  // The content of its `.zarray` or `zarr.json`.
  [[nodiscard]] const std::string& metadata_text(std::size_t array) const {
    return described_[array]->text;
  }
  // Writes the metadata and the values of all arrays. Calls `fetch` from this thread only.
  void write(ValueSink& sink, const FetchBoxesFn& fetch);
  void write_metadata(ValueSink& sink) const;
  void write_values(ValueSink& sink, const FetchBoxesFn& fetch);
  // For arrays whose metadata is as in an earlier save: keeps the values of `earlier` that are
  // unchanged, and writes the others. write_values() then writes what `earlier` does not have.
  // Fetches elements as write_values() does. `earlier` must outlive the writer.
  void write_changed(ReusableValues& earlier, ValueSink& sink, const FetchBoxesFn& fetch);
  [[nodiscard]] bool has_values() const { return !areas_.empty(); }

 private:
  // A part of an array that is written in one step.
  struct Portion {
    std::size_t array = 0;
    Box box;
    std::uint64_t fetched = 0;        // bytes to fetch for it, without padding
    const ArrayView* from = nullptr;  // its elements, if they belong to a given part
    bool is_last = false;             // of its array
  };
  // A box of an array that this process writes, in one portion or several. Its shape determines the
  // portions. They are not listed, because a hostile shape may make more of them than fit into
  // memory.
  struct Area {
    std::size_t array = 0;
    std::optional<Box> box;           // nullopt: the whole array
    const ArrayView* from = nullptr;  // as in Portion
    bool is_small = false;            // write_small() can write it
  };
  class Portions;
  // The inputs that determine an array's metadata, besides the options. Many arrays share one kind,
  // because layers repeat.
  struct Kind {
    DType dtype;
    Shape shape, piece;
    std::optional<std::int64_t> chunk_bytes;  // upper bound
    bool is_free = false;                     // the user has not chosen the chunks
    std::vector<std::int64_t> shard_axes;
    std::optional<Shape> write_chunk, read_chunk;
    bool is_raw = false;  // as in ArrayWriteOptions
    [[nodiscard]] auto members() const {
      return std::tie(dtype, shape, piece, chunk_bytes, is_free, shard_axes, write_chunk,
                      read_chunk, is_raw);
    }
    friend bool operator<(const Kind& a, const Kind& b) { return a.members() < b.members(); }
  };
  struct Described {
    std::shared_ptr<const zarr::ArrayMetadata> metadata;
    std::string text;       // as stored
    bool is_small = false;  // see zarr::is_small_whole
  };
  [[nodiscard]] std::uint64_t fetch_bytes() const;
  void check_fetch(std::size_t number) const;
  [[nodiscard]] std::optional<std::int64_t> chunk_target(const StoreArray& array) const;
  [[nodiscard]] bool has_free_chunks(const StoreArray& array) const;
  const std::pair<const Kind, Described>& described_kind(std::size_t number);
  [[nodiscard]] Described describe(const Kind& kind) const;
  void set_chunks(const Kind& kind, zarr::NewArray& made) const;
  [[nodiscard]] std::string metadata_key(std::size_t array) const;
  [[nodiscard]] std::uint64_t weight_of(const StoreArray& array) const;
  void count_total(std::uint64_t bytes);
  void add_areas(std::size_t number, WorkPartition& line);
  void add_dealt(std::size_t number, WorkPartition& line);
  [[nodiscard]] ArrayView source_of(const Portion& portion, const std::byte* data) const;
  [[nodiscard]] std::vector<bool> with_unchanged_metadata(const ReusableValues& earlier) const;
  [[nodiscard]] bool is_done(const Portion& portion) const;
  // What is done with the elements of a batch.
  using BatchFn =
      std::function<void(std::span<const zarr::ArrayWrite>, const zarr::WriteContext& context)>;
  // Calls `use` for batches of the portions that `wanted` accepts. Tells the arrays what has
  // happened if `announces` is set.
  void for_each_batch(const std::function<bool(const Portion&)>& wanted, const FetchBoxesFn& fetch,
                      const BatchFn& use, bool announces = false);
  // Writes the areas that are marked as small.
  void write_small(ValueSink& sink);
  void use_batch(std::span<const Portion> batch, const FetchBoxesFn& fetch, const BatchFn& use,
                 bool announces);
  void fill(std::vector<ReadRequest> requests, const FetchBoxesFn& fetch) const;
  void tell(std::size_t array, std::function<void()> StoreArray::*what) const;
  void tell_about_others() const;

  std::vector<const StoreArray*> arrays_;
  ArrayWriteOptions options_;
  std::map<Kind, Described> kinds_;
  const std::pair<const Kind, Described>* last_kind_ = nullptr;  // of the array before
  std::vector<zarr::ZarrArray> opened_;                          // parallel to arrays_
  std::vector<const Described*> described_;                      // parallel to arrays_
  std::vector<Area> areas_;                                      // sorted by priority
  const ReusableValues* earlier_ = nullptr;  // of write_changed(); null: it was not called
  bool small_are_written_ = false;           // Portions leaves them out
};

}  // namespace cairn::inline v0::handlers
