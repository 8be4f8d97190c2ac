// pytree_item.h -- one pytree of a checkpoint, opened: its leaves, and where the value of each is.
#pragma once

#include <cairn/checkpoint.h>
#include <cairn/handlers/array_reader.h>
#include <cairn/kvstore.h>
#include <cairn/orbax/layout/layout.h>
#include <cairn/tree/tree_metadata.h>

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::orbax {

// Where the structure of a tree is known from.
enum class Structure : std::uint8_t {
  kTreeMetadata,  // `_METADATA`
  kAggregate,     // the legacy msgpack file
  // nothing but the names of the arrays: Orbax checkpoints without either, and bare Zarr arrays
  kNames,
};

enum class ArrayStorage : std::uint8_t {
  kFolders,   // one folder per parameter
  kOcdbt,     // a database
  kUnmerged,  // the databases of the processes, not merged yet
};

// The C-order bytes of an array that stands in the aggregate file, in pieces one behind the other.
struct InsideValue {
  std::shared_ptr<const void> file;  // keeps the pieces
  std::vector<ByteView> pieces;
};

// The value of a leaf that is in no stored array, if there is one: from the aggregate file, or from
// a file of strings.
struct LeafValue {
  std::shared_ptr<const InsideValue> inside;
  std::shared_ptr<const std::string> text;
};

// A file that was there but could not be used.
struct BrokenFile {
  std::string file;
  std::string why;
  Code code = Code::kDataLoss;
};

struct PytreeItem {
  Item item;
  StorePtr files;   // the item's folder
  StorePtr arrays;  // where the arrays' keys are; null if the database cannot be opened
  Structure structure = Structure::kNames;
  ArrayStorage storage = ArrayStorage::kFolders;
  OcdbtVersion version;                      // which one of the database
  std::vector<std::string> process_folders;  // ocdbt.process_*
  TreeMetadata metadata;                     // without leaves: those are `tensors`
  // whether the legacy msgpack file holds values, not only placeholders
  bool has_aggregated_values = false;
  std::size_t recorded = 0;  // so many of `tensors`, the first, are in `_METADATA`
  // of the recorded leaves, which are the first; Orbax records it with array_metadatas
  std::vector<bool> has_write_shape;
  zarr::MissingChunk missing = zarr::MissingChunk::kFill;
  int zarr_format = 0;      // 0: not recorded
  bool has_arrays = false;  // whether any leaf is to be found in `arrays`
  std::vector<TensorInfo> tensors;
  handlers::StoredArrays stored;  // beside tensors
  std::vector<LeafValue> values;  // beside tensors
  std::vector<ListEntry> keys;    // everything in `arrays`
  // names of array metadata that are not the usual ones; arrays
  std::map<std::string, std::vector<std::string>> custom_keys;
  // in array_metadatas, sorted
  std::vector<std::string> array_metadata_files;
  // file, why it could not be read
  std::vector<std::pair<std::string, std::string>> unread_array_metadata;
  // whether there is a file of them
  bool has_shardings = false;
  // names of typed PRNG keys, and their implementations
  std::map<std::string, std::string> random_keys;
  std::vector<BrokenFile> broken;
};

// Whether a version is asked for at all.
inline bool is_version(const OcdbtVersion& version) {
  return version.generation || version.commit_time_ns;
}

// Whether a leaf of this kind is stored by a type handler that Cairn does not have: nobody else
// knows where its value is.
bool is_custom_kind(std::string_view kind);

// Opens what can be opened: an array that is missing or damaged is a tensor with an error. Throws
// only if the structure itself cannot be read, or if the database has no such version as the
// options ask for.
PytreeItem open_pytree_item(const Item& item, LayoutKind kind, const OpenOptions& options);

// The same without a look at the arrays: their tensors have the dtype_name "?", `stored` and `keys`
// are empty. For those who know which few they want. A tree that no file describes has no tensors.
// `aggregate_file`: what the msgpack file of older ones is called.
PytreeItem open_pytree_structure(const Item& item, const std::string& aggregate_file,
                                 const OpenOptions& options);

// Error(kUnavailable) if the item's path has come to name another folder than the one that is held
// open.
void check_not_replaced(const PytreeItem& item);

// The array of a leaf that stands in the aggregate file, in one piece.
Array inside_array(const InsideValue& value, const TensorInfo& leaf);

}  // namespace cairn::orbax
