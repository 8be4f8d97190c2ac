// array_writer.h -- stores the arrays of one pytree: chunk shapes are chosen, then values go to a
// sink, batch after batch within the memory.
#pragma once

#include <cairn/base/executor.h>
#include <cairn/base/work_partition.h>
#include <cairn/checkpoint.h>
#include <cairn/compression.h>
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

namespace cairn::handlers {

using ValueSink = zarr::ValueSink;
using StoreSink = zarr::StoreSink;
using ArrayPart = zarr::ArrayPart;  // a box, and a view of its elements

struct ArrayToWrite {
  std::string name;                    // parameter name
  DType dtype = DType::kUint8;         // that it is stored as
  DType source_dtype = DType::kUint8;  // that its elements are given as
  Shape shape;
  // what is stored as one chunk, if no limit asks for smaller ones
  Shape piece;
  // its elements in C order, the caller's; null: they are fetched
  const std::byte* data = nullptr;
  std::optional<std::int64_t> chunk_bytes = {};  // none: as the options say
  std::vector<std::int64_t> shard_axes = {};     // that are split first
  std::optional<Shape> write_chunk_shape = {};   // as in SaveArgs
  std::optional<Shape> read_chunk_shape = {};
  std::string metadata_key = {};  // what its metadata is called below its name; "": as usual
  // all of a lower number are written before the first of a higher one is fetched
  int priority = 0;
  // What of it is written here, where others write the rest: some of its pieces, the caller's.
  // Those with null data are fetched. Null: all of it.
  const std::vector<ArrayPart>* parts = nullptr;
};

struct ArrayWriteOptions {
  int zarr_format = 2;
  Compression compression;
  std::optional<std::int64_t> chunk_bytes;  // none: an array is one chunk, unless
  // of a database's data files, 0 for no limit: no chunk is larger
  std::optional<std::int64_t> file_bytes;
  std::uint64_t memory = std::uint64_t{1} << 30U;  // bytes beside the arrays
  Executor* executor = nullptr;                    // null: the process's
  ProgressFn progress;
  // Of arrays that are fetched, this share of the chunks is written here, and the rest by others
  // that plan the same arrays.
  WorkShare share = {};
};

// Fills boxes of arrays whose data is null; `tensor` is the position of the array. The requests are
// the callee's to change.
using FetchBoxesFn = std::function<void(std::span<ReadRequest>)>;

class ArrayWriter {
 public:
  // Plans. Throws, naming the array, what make_metadata and choose_chunk_shape do.
  ArrayWriter(std::vector<ArrayToWrite> arrays, ArrayWriteOptions options);

  // Of its stored values, and of the smallest pieces that can be read alone.
  [[nodiscard]] const Shape& chunk_shape(std::size_t array) const {
    return opened_[array].metadata().chunk_shape;
  }
  [[nodiscard]] const Shape& read_chunk_shape(std::size_t array) const {
    return opened_[array].metadata().read_chunk_shape();
  }
  // The text of its `.zarray` or `zarr.json`.
  [[nodiscard]] const std::string& metadata_text(std::size_t array) const {
    return described_[array]->text;
  }
  // Metadata and values of all arrays. `fetch` is called from this thread only.
  void write(ValueSink& sink, const FetchBoxesFn& fetch);
  void write_metadata(ValueSink& sink) const;
  void write_values(ValueSink& sink, const FetchBoxesFn& fetch);
  [[nodiscard]] bool has_values() const { return !areas_.empty(); }

 private:
  // Part of an array that is written in one go.
  struct Portion {
    std::size_t array = 0;
    Box box;
    std::uint64_t fetched = 0;        // bytes to be fetched for it
    const ArrayView* from = nullptr;  // where its elements are, if they are those of a part
  };
  // A box of an array that is written here, in one portion or several. How it is cut follows from
  // its shape: a hostile shape may make more portions than there is memory for, so they are not
  // listed.
  struct Area {
    std::size_t array = 0;
    Box box;
    const ArrayView* from = nullptr;  // as Portion::from
  };
  class Portions;
  // What the metadata of an array follows from, beside the options: layers are many arrays of few
  // kinds.
  struct Kind {
    DType dtype;
    Shape shape, piece;
    std::optional<std::int64_t> chunk_bytes;  // at most
    std::vector<std::int64_t> shard_axes;
    std::optional<Shape> write_chunk, read_chunk;
    friend bool operator<(const Kind& a, const Kind& b) {
      return std::tie(a.dtype, a.shape, a.piece, a.chunk_bytes, a.shard_axes, a.write_chunk,
                      a.read_chunk) < std::tie(b.dtype, b.shape, b.piece, b.chunk_bytes,
                                               b.shard_axes, b.write_chunk, b.read_chunk);
    }
  };
  struct Described {
    std::shared_ptr<const zarr::ArrayMetadata> metadata;
    std::string text;  // as it is stored
  };
  [[nodiscard]] Kind kind_of(const ArrayToWrite& array) const;
  [[nodiscard]] Described describe(const Kind& kind) const;
  void set_chunks(const Kind& kind, zarr::NewArray& made) const;
  [[nodiscard]] std::string metadata_key(std::size_t array) const;
  [[nodiscard]] std::uint64_t weight_of(const ArrayToWrite& array) const;
  void add_areas(std::size_t number, WorkPartition& line);
  void add_dealt(std::size_t number, WorkPartition& line);
  [[nodiscard]] ArrayView source_of(const Portion& portion, const std::byte* data) const;
  void write_batch(std::span<const Portion> batch, ValueSink& sink, const FetchBoxesFn& fetch);

  std::vector<ArrayToWrite> arrays_;
  ArrayWriteOptions options_;
  std::map<Kind, Described> kinds_;
  std::vector<zarr::ZarrArray> opened_;      // beside arrays_
  std::vector<const Described*> described_;  // beside arrays_
  std::vector<Area> areas_;                  // by priority
  Progress progress_;
};

}  // namespace cairn::handlers
