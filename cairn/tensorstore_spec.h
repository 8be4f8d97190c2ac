// tensorstore_spec.h -- arrays opened by TensorStore's JSON specs, as Orbax and many training
// programs write them down:
//
//   {"driver":"zarr","kvstore":{"driver":"ocdbt","base":"file:///ckpt/","path":"params.w"}}
//
// Understood are the drivers zarr, zarr3 and cast over file, memory and ocdbt stores (json:
// open_json_spec), and the members that docs/tensorstore-spec.md lists. A member or driver that is
// not understood is refused by its place in the spec, "/kvstore/base/driver": nothing is passed
// over that could change what the spec means. Malformed specs are invalid_argument, what
// TensorStore can do and Cairn cannot is unimplemented.
#pragma once

#include <cairn/error.h>
#include <cairn/kvstore.h>
#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace cairn {

// What specs opened with the same context share: stores in memory. Copies are the same context.
// Safe to use from many threads.
class SpecContext {
 public:
  SpecContext();
  // The store that {"driver":"memory"} means; with a name,
  // "memory_key_value_store":"memory_key_value_store#name". Made when it is first asked for.
  [[nodiscard]] StorePtr memory_store(const std::string& name = "") const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// How to open, in place of what the spec itself says: the arguments of tensorstore.open.
struct OpenSpecOptions {
  std::optional<bool> open = {};             // an array that is there
  std::optional<bool> create = {};           // one that is not there
  std::optional<bool> delete_existing = {};  // first remove everything below the array's path
  // take the spec's metadata for the stored, unread
  std::optional<bool> assume_metadata = {};
  std::optional<SpecContext> context = {};         // none: stores in memory are new and empty
  std::uint64_t memory = std::uint64_t{1} << 30U;  // bytes of working memory beside the caller's
};

struct SpecArrayInfo {
  std::string driver;            // "zarr" or "zarr3"; "cast" if elements are cast
  DType dtype = DType::kOpaque;  // of the elements as they are read and written
  DType stored_dtype = DType::kOpaque;
  // "float32"; of elements that Cairn does not interpret as stored ("|S8")
  std::string dtype_name;
  std::size_t element_size = 0;  // bytes, of an element as it is read
  Shape shape;
  Shape chunk_shape;       // of what is stored as one value
  Shape read_chunk_shape;  // of the smallest pieces that can be read alone: inner chunks of shards
  std::string metadata;    // .zarray or zarr.json: as stored, or as it would be where it is assumed
};

// An opened array. Copies are the same array. Reading is safe from many threads; writes wait for
// each other.
class SpecArray {
 public:
  [[nodiscard]] const SpecArrayInfo& info() const;
  // Reads the elements of `box` into `out`, which has the dtype and element size of info() and the
  // shape of the box. Chunks that are not stored read as the fill value, or are data_loss if the
  // spec says "fill_missing_data_reads": false. Cast elements take the box a second time in memory.
  void read(const Box& box, const MutableArrayView& out) const;
  [[nodiscard]] Array read() const;  // all of it
  // Replaces the elements of `box` by `from`, of the dtype of info(). In a database each call is
  // one commit. unimplemented for a database at a version that the spec names.
  void write(const Box& box, const ArrayView& from);

 private:
  friend SpecArray open_array_spec(std::string_view json, const OpenSpecOptions& options);
  struct State;
  explicit SpecArray(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// Opens, or makes, the array. not_found: there is none; already_exists: there is one, but only
// "create" was asked for; failed_precondition: it is not as the spec says.
SpecArray open_array_spec(std::string_view json, const OpenSpecOptions& options = {});

// A JSON value, or part of one: {"driver":"json","kvstore":...,"json_pointer":"/a"}.
class SpecJson {
 public:
  // The part that the pointer names, as JSON text. not_found if there is no value or no such
  // member, out_of_range beyond the end of an array, failed_precondition for a pointer into what is
  // neither, data_loss for what is no JSON.
  [[nodiscard]] std::string read() const;
  // Replaces or adds it; the rest stays. Objects on the way are made where there is none. The whole
  // value is replaced at once.
  void write(std::string_view json);

 private:
  friend SpecJson open_json_spec(std::string_view json, const OpenSpecOptions& options);
  struct State;
  explicit SpecJson(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// Opens without reading anything.
SpecJson open_json_spec(std::string_view json, const OpenSpecOptions& options = {});

}  // namespace cairn
