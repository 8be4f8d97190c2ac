// tensorstore_spec.h -- opens arrays by TensorStore's JSON specs, the form in which Orbax and many
// training programs describe them:
//
//   {"driver":"zarr","kvstore":{"driver":"ocdbt","base":"file:///ckpt/","path":"params.w"}}
//
// Supported are the drivers zarr, zarr3 and cast over the stores file, memory, gcs, s3, http and
// ocdbt (json: open_json_spec; stores: open_kv_store), and the members that
// docs/reference/tensorstore-spec.md lists. An unsupported member or driver is refused, and the
// error gives its place in the spec ("/kvstore/base/driver"): Cairn never ignores a member that
// could change the meaning of a spec. Malformed specs are invalid_argument; features that only
// TensorStore has are unimplemented.
#pragma once

#include <cairn/error.h>
#include <cairn/storage/kvstore.h>
#include <cairn/storage/ocdbt.h>
#include <cairn/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#pragma GCC visibility push(default)
namespace cairn::inline v0 {

// Resources shared by all specs opened with the same context: stores in memory, and options of
// object stores. Copies are the same context. Safe to use from many threads.
class SpecContext {
 public:
  SpecContext();
  // The options count for what a spec with the driver gcs, s3 or http leaves out. If they have
  // credentials, an "endpoint" of a spec must equal theirs, because the keys are for that server.
  // Anonymous access also overrides the credentials of a spec.
  explicit SpecContext(StoreOptions store_options);
  [[nodiscard]] const StoreOptions& store_options() const;
  // The store of {"driver":"memory"}; with a name, of
  // "memory_key_value_store":"memory_key_value_store#name". Created on first use.
  [[nodiscard]] StorePtr memory_store(const std::string& name = "") const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// How to open: the arguments of tensorstore.open. Set members override the spec.
struct OpenSpecOptions {
  std::optional<bool> open = {};             // open an existing array
  std::optional<bool> create = {};           // create a missing array
  std::optional<bool> delete_existing = {};  // first remove everything below the array's path
  // use the metadata of the spec without reading the stored metadata
  std::optional<bool> assume_metadata = {};
  std::optional<SpecContext> context = {};  // none: a new context, whose stores in memory are empty
  Resources resources = {};                 // of reads and writes of the array
};

// Description of an opened array.
struct SpecArrayInfo {
  std::string driver;                   // "zarr" or "zarr3"; "cast" if elements are cast
  DType dtype = DType::kOpaque;         // type of the elements as read and written
  DType stored_dtype = DType::kOpaque;  // type of the stored elements
  // "float32"; for uninterpreted elements the stored name ("|S8").
  std::string dtype_name;
  std::size_t element_size = 0;  // bytes per element as read
  Shape shape;
  Shape chunk_shape;  // shape of the chunks stored as one value
  // shape of the smallest separately readable chunks: inner chunks of shards
  Shape read_chunk_shape;
  // .zarray or zarr.json as stored; with assume_metadata, as the spec implies it
  std::string metadata;
};

// An opened array. Copies are the same array. Reads are safe from many threads; writes are
// serialised.
class SpecArray {
 public:
  // Description of the array; valid as long as a copy of the array exists.
  [[nodiscard]] const SpecArrayInfo& info() const;
  // Reads the elements of `box` into `out`, which has the dtype and element size of info() and the
  // shape of the box. Missing chunks read as the fill value, or throw data_loss if the spec has
  // "fill_missing_data_reads": false. A cast needs memory for a second copy of the box.
  void read(const Box& box, const MutableArrayView& out) const;
  [[nodiscard]] Array read() const;  // reads the whole array into new memory
  // Replaces the elements of `box` by `from`, which has the dtype of info(). In a database each
  // call is one commit. Throws unimplemented for a database version that the spec names.
  void write(const Box& box, const ArrayView& from);

 private:
  friend SpecArray open_array_spec(std::string_view json, const OpenSpecOptions& options);
  struct State;
  explicit SpecArray(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// Opens or creates the array. Throws not_found if there is no array, already_exists if there is one
// but only "create" was requested, failed_precondition if the stored array does not match the spec.
SpecArray open_array_spec(std::string_view json, const OpenSpecOptions& options = {});

// A JSON value, or a part of one: {"driver":"json","kvstore":...,"json_pointer":"/a"}.
class SpecJson {
 public:
  // The part that the pointer selects, as JSON text. Throws not_found if the value or the member is
  // missing, out_of_range beyond the end of an array, failed_precondition for a pointer into a
  // value that is neither array nor object, data_loss for a value that is not JSON.
  [[nodiscard]] std::string read() const;
  // Replaces or adds the part; the rest stays unchanged. Missing objects on the pointer's path are
  // created. The whole value is replaced atomically.
  void write(std::string_view json);

 private:
  friend SpecJson open_json_spec(std::string_view json, const OpenSpecOptions& options);
  struct State;
  explicit SpecJson(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// Opens the value without reading anything.
SpecJson open_json_spec(std::string_view json, const OpenSpecOptions& options = {});

// Opens the key-value store of a spec: an object with a "driver", or a URL. The path of the spec is
// a prefix of all keys, as in TensorStore: end it with "/" for a folder. Reads of a database see
// the newest version, and each write is one commit; for many changes use open_kv_transaction. A
// spec that names a version opens that version for reading. Throws data_loss for a damaged
// database.
StorePtr open_kv_store(std::string_view spec, const SpecContext& context = {});

// Begins a transaction on the database of a spec, with the options of the spec (config,
// target_data_file_size, prefixes of data files). The path of the spec is a prefix of all keys.
// Throws unimplemented for a store other than a database, invalid_argument for a spec with a
// version.
OcdbtTransaction open_kv_transaction(std::string_view spec, const SpecContext& context = {});

}  // namespace cairn::inline v0
#pragma GCC visibility pop
